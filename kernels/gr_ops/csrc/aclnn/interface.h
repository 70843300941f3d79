#pragma once

namespace gr_ops::aclnn {

// Raises where the package that `address`, the aclnn function of that name, was found in is of another release than
// this plugin: the call would be read by another order of arguments. Functions that are not ours are not looked at.
void check_interface(const char* function, void* address);

}  // namespace gr_ops::aclnn
