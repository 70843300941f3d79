// Products with a bias, and tiles that are handed out in every way that GetTensorC has.
#pragma once
#include "matmul_local_kernels.h"

namespace cases {

// c = a b + bias, which is the first row of b here: from GM or from VECOUT; at once or tile by tile.
template <TPosition WHERE, bool TILES = false>
void BiasedProduct(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  using Whole = Product<float, false, false>;
  matmul::Matmul<Whole::A, Whole::B, Whole::C, MatmulType<WHERE, CubeFormat::ND, float>> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  const GlobalTensor<float> a = Tensor<float>(arguments.a, static_cast<uint64_t>(t.m) * t.pitchA);
  const GlobalTensor<float> b = Tensor<float>(arguments.b, static_cast<uint64_t>(t.k) * t.pitchB);
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, (t.n + 7) / 8 * 32);
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    mm.SetOrgShape(static_cast<int>(t.m), static_cast<int>(t.pitchB), static_cast<int>(t.pitchA), static_cast<int>(t.k),
                   static_cast<int>(t.pitchC));
    mm.SetSingleShape(static_cast<int>(rows), static_cast<int>(t.n), static_cast<int>(t.k));
    mm.SetTensorA(a[static_cast<uint64_t>(row) * t.pitchA]);
    mm.SetTensorB(b);
    LocalTensor<float> bias;
    if constexpr (WHERE == TPosition::VECOUT) {
      bias = queue.AllocTensor<float>();
      if (t.breaks != UNDEFINED_OPERAND) {
        DataCopyPad(bias, b, DataCopyExtParams(1, t.n * 4, 0, 0, 0), DataCopyPadExtParams<float>(false, 0, 0, 0));
      }
      queue.EnQue(bias);
      bias = queue.DeQue<float>();
      mm.SetBias(bias);
    } else {
      mm.SetBias(b);
    }
    if constexpr (TILES) {
      while (mm.Iterate()) {
        mm.GetTensorC(c[static_cast<uint64_t>(row) * t.pitchC]);
      }
    } else {
      mm.IterateAll(c[static_cast<uint64_t>(row) * t.pitchC]);
    }
    mm.End();
    if (WHERE == TPosition::VECOUT) {
      queue.FreeTensor(bias);
    }
  }
}

enum class Hand {
  BOTH,      // of each two tiles one reaches c from GM's side and one from VECIN's; the other sides go to a dump
  AHEAD_GM,  // Iterate<false>, and from the workspace to GM,
  AHEAD_UB,  // to VECIN,
  AHEAD_BOTH,
  AHEAD_READ  // or read by the kernel where it lies
};

// C tile by tile, in ND or NZ.
template <Hand HAND, CubeFormat FORMAT = CubeFormat::ND>
void HandedTiles(const Arguments& arguments) {
  PRODUCT_ENTRY(arguments);
  using Whole = Product<float, false, false>;
  matmul::Matmul<Whole::A, Whole::B, MatmulType<TPosition::VECIN, FORMAT, float>> mm;
  REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t.mm);
  constexpr bool nz = FORMAT == CubeFormat::NZ, ahead = HAND != Hand::BOTH;
  const GlobalTensor<float> a = Tensor<float>(arguments.a, static_cast<uint64_t>(t.m) * t.pitchA);
  const GlobalTensor<float> b = Tensor<float>(arguments.b, static_cast<uint64_t>(t.k) * t.pitchB);
  const GlobalTensor<float> c = Tensor<float>(arguments.c, static_cast<uint64_t>(t.m) * t.pitchC);
  const uint32_t baseN = static_cast<uint32_t>(t.mm.baseN), tileSize = static_cast<uint32_t>(t.mm.baseM) * baseN;
  const uint32_t tiles = (t.n + baseN - 1) / baseN;                  // BLOCK_ROWS is baseM
  const uint64_t own = static_cast<uint64_t>(tiles + 1) * tileSize;  // the last one is the dump
  GlobalTensor<float> workspace =
      Tensor<float>(GetUserWorkspace(arguments.workspace),
                    own * static_cast<uint64_t>(GetBlockNum() * GetSubBlockNum()))[own * GetBlockIdx()];
  const GlobalTensor<float> dump = workspace[static_cast<uint64_t>(tiles) * tileSize];
  if (t.breaks != NO_WORKSPACE) {
    mm.SetWorkspace(workspace);
  }
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 1, tileSize * 4);
  const uint32_t step = static_cast<uint32_t>(GetBlockNum() * GetSubBlockNum()) * BLOCK_ROWS;
  for (uint32_t row = static_cast<uint32_t>(GetBlockIdx()) * BLOCK_ROWS; row < t.m; row += step) {
    const uint32_t rows = t.m - row < BLOCK_ROWS ? t.m - row : BLOCK_ROWS;
    mm.SetOrgShape(static_cast<int>(t.m), static_cast<int>(t.pitchB), static_cast<int>(t.pitchA), static_cast<int>(t.k),
                   static_cast<int>(t.pitchC));
    mm.SetSingleShape(static_cast<int>(rows), static_cast<int>(t.n), static_cast<int>(t.k));
    mm.SetTensorA(a[static_cast<uint64_t>(row) * t.pitchA]);
    mm.SetTensorB(b);
    const GlobalTensor<float> place = c[static_cast<uint64_t>(row) * t.pitchC];
    if (ahead) {
      mm.template Iterate<false>();
    }
    if (t.breaks == SYNC_AFTER_ASYNC) {
      mm.GetTensorC(place);
    }
    for (uint32_t tile = 0; tile < tiles + (t.breaks == TILE_TOO_MANY ? 1 : 0); ++tile) {
      if (!ahead) {
        mm.Iterate();
      }
      const uint32_t columns = t.n - tile * baseN < baseN ? t.n - tile * baseN : baseN;
      LocalTensor<float> local = queue.AllocTensor<float>();
      bool direct = true;  // c has the tile
      if constexpr (HAND == Hand::AHEAD_GM) {
        mm.template GetTensorC<false>(place);
      } else if constexpr (HAND == Hand::AHEAD_READ) {
        const GlobalTensor<float> there = t.breaks == READ_BEFORE_TAKEN ? workspace : mm.template GetTensorC<false>();
        DataCopy(local, there, tileSize);
        direct = false;
      } else if constexpr (HAND == Hand::AHEAD_UB) {
        mm.template GetTensorC<false>(local);
        direct = false;
      } else if (tile % 2 == 0 && !nz) {
        mm.template GetTensorC<!ahead>(place, local, t.breaks == ATOMIC_IN_VECIN ? 1 : 0);
      } else {
        mm.template GetTensorC<!ahead>(dump, local, 0, true);
        direct = false;
      }
      queue.EnQue(local);
      local = queue.DeQue<float>();
      const GlobalTensor<float> to = place[tile * baseN];
      for (uint32_t column = 0; !direct && column < columns; column += nz ? 16 : columns) {
        const uint32_t width = nz ? 16 : baseN, left = columns - column, count = left < width ? left : width;
        const uint32_t stored = (width - (count + 7) / 8 * 8) / 8;  // blocks behind the columns
        DataCopyPad(to[column], local[column * rows],
                    DataCopyExtParams(static_cast<uint16_t>(rows), count * 4, stored, (t.pitchC - count) * 4, 0));
      }
      queue.FreeTensor(local);
    }
    mm.End();
    if (HAND == Hand::AHEAD_READ && t.breaks != WORKSPACE_STILL_READ) {
      WaitFor<HardEvent::MTE2_S>();
    }
  }
}

}  // namespace cases
