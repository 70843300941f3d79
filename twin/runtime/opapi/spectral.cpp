// Short-time Fourier transforms. self [L] or [B, L], window [winLength], out [.., N, T] with N frequencies of T
// windows, and where returnComplex is false a last dimension of 2: real and imaginary parts. torch.stft has padded
// self.
#include "call.h"

using namespace twin::opapi;

ACLNN(aclStft, (In, self), (OptionalIn, window), (Out, out), (int64_t, nFft), (int64_t, hopLength),
      (int64_t, winLength), (bool, normalized), (bool, onesided), (bool, returnComplex)) {
  const auto spectrum =
      at::stft(self, nFft, hopLength, winLength, window, /*center=*/false, "reflect", normalized, onesided, true);
  out = returnComplex ? spectrum : at::view_as_real(spectrum);
}
