// Where a Python program is, for counts: who waits is a question about the program, not about torch.
#pragma once
#include <string>

namespace twin {

// "file:line" of this thread's innermost Python frame that is not torch's or torch_npu's; empty where there is none.
std::string PythonPlace();

}  // namespace twin
