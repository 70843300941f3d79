// Random numbers. Equal (seed, offset) give equal values; the device's own stream of numbers is not reproduced.
#include <ATen/CPUGeneratorImpl.h>

#include "call.h"
#include "check.h"
#include "twin/seed.h"

using namespace twin::opapi;

namespace {

at::Generator Generator(uint64_t seed, uint64_t offset) {
  return at::detail::createCPUGenerator(twin::CpuSeed(seed, offset));
}

constexpr auto PROBABILITY = [](const auto&, double probability, const auto&...) {
  if (!(probability >= 0 && probability <= 1)) {
    throw Refusal(INVALID_ARGUMENT, "p is " + std::to_string(probability) + ", not between 0 and 1");
  }
};

// The dropout mask has one bit per element, least significant first, in units of 128 elements.
constexpr int64_t MASK_UNIT_BITS = 128;

int64_t MaskBytes(int64_t elements) { return (elements + MASK_UNIT_BITS - 1) / MASK_UNIT_BITS * (MASK_UNIT_BITS / 8); }

const at::Tensor& BitWeights() {
  static const auto* weights = new at::Tensor(at::tensor({1, 2, 4, 8, 16, 32, 64, 128}, at::kByte));
  return *weights;
}

}  // namespace

ACLNN(aclnnInplaceUniform, (InOut, self), (double, from), (double, to), (uint64_t, seed), (uint64_t, offset)) {
  self.uniform_(from, to, Generator(seed, offset));
}

ACLNN(aclnnInplaceNormal, (InOut, self), (float, mean), (float, std), (int64_t, seed), (int64_t, offset)) {
  self.normal_(mean, std, Generator(seed, offset));
}

ACLNN(aclnnNormalFloatFloat, (float, mean), (float, std), (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = at::empty(out.Target().sizes(), out.Target().options()).normal_(mean, std, Generator(seed, offset));
}

ACLNN(aclnnNormalFloatTensor, (float, mean), (In, std), (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = at::normal(mean, std, Generator(seed, offset));
}

ACLNN(aclnnNormalTensorFloat, (In, mean), (float, std), (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = at::normal(mean, std, Generator(seed, offset));
}

ACLNN(aclnnNormalTensorTensor, (In, mean), (In, std), (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = at::normal(mean, std, Generator(seed, offset));
}

ACLNN(aclnnInplaceBernoulli, (InOut, self), (Number, probability), (uint64_t, seed), (uint64_t, offset)) {
  self.bernoulli_(probability.toDouble(), Generator(seed, offset));
}

ACLNN_CHECKED(aclnnInplaceBernoulliTensor, BROADCAST_INTO_SELF, (InOut, self), (In, probability), (uint64_t, seed),
              (uint64_t, offset)) {
  self.bernoulli_(probability, Generator(seed, offset));
}

ACLNN(aclnnInplaceRandom, (InOut, self), (int64_t, from), (int64_t, to), (int64_t, seed), (int64_t, offset)) {
  self.random_(from, to, Generator(seed, offset));
}

ACLNN(aclnnRandperm, (int64_t, count), (int64_t, seed), (int64_t, offset), (Out, out)) {
  out = at::randperm(count, Generator(seed, offset), out.Target().options());
}

ACLNN(aclnnMultinomial, (In, self), (int64_t, numSamples), (bool, replacement), (int64_t, seed), (int64_t, offset),
      (Out, out)) {
  out = at::multinomial(self, numSamples, replacement, Generator(seed, offset));
}

ACLNN_CHECKED(aclnnDropoutGenMaskV2, PROBABILITY, (Ints, shape), (double, probability), (uint64_t, seed),
              (uint64_t, offset), (Type, probabilityType), (Out, mask)) {
  const int64_t bytes = MaskBytes(c10::multiply_integers(shape));
  auto keep = at::empty({bytes, 8}, at::kByte);
  keep.bernoulli_(1 - probability, Generator(seed, offset));
  mask = (keep * BitWeights()).sum(1, /*keepdim=*/false, at::kByte).reshape(mask.Target().sizes());
}

ACLNN_CHECKED(
    aclnnDropoutDoMask,
    [](const HeldInput& self, const HeldInput& mask, double probability, const HeldOutput&) {
      PROBABILITY(self, probability);
      const int64_t needed = MaskBytes(c10::multiply_integers(self.Shape()));
      const int64_t given = c10::multiply_integers(mask.Shape());
      if (given < needed) {
        throw Refusal(INVALID_ARGUMENT,
                      "mask has " + std::to_string(given) + " bytes, self needs " + std::to_string(needed));
      }
    },
    (In, self), (In, mask), (double, probability), (Out, out)) {
  const auto bits = (mask.reshape({-1, 1}) & BitWeights()).ne(0).reshape({-1});
  const auto keep = bits.narrow(0, 0, self.numel()).reshape(self.sizes());
  const double scale = probability == 1 ? 0 : 1 / (1 - probability);
  out = at::where(keep, self * scale, at::zeros({}, self.options()));
}
