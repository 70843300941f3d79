#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "aclnn/types.h"

namespace gr_ops::aclnn {

struct DestroyHandle {
  void operator()(const aclTensor* tensor) const;
  void operator()(const aclTensorList* list) const;
  void operator()(const aclIntArray* array) const;
};

// Converts torch arguments to handles and owns them until phase two has run.
class Arguments {
 public:
  const aclTensor* tensor(const at::Tensor& tensor);
  // Described to the operator as another dtype of the same width, for operators that move bits.
  const aclTensor* tensor_as(const at::Tensor& tensor, at::ScalarType dtype);
  const aclTensorList* tensor_list(at::TensorList tensors);
  const aclIntArray* int_array(at::IntArrayRef values);

 private:
  template <typename Handle>
  using Owned = std::unique_ptr<const Handle, DestroyHandle>;

  std::vector<Owned<aclTensor>> tensors_;
  std::vector<Owned<aclTensorList>> lists_;
  std::vector<Owned<aclIntArray>> arrays_;
};

}  // namespace gr_ops::aclnn
