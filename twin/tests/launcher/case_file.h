// Calls of an operator with the results that they must have, as twin/tests/launcher/cases.py writes them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace launcher {

struct Tensor {
  int32_t dataType = 0;
  std::vector<int64_t> dims;
  std::vector<unsigned char> bytes;  // of an output: the expected ones
};

struct Argument {
  enum Kind : int64_t { INPUT, INPUT_LIST, INT, INT_LIST, OUTPUT, REAL, TRUTH, TEXT, NO_INPUT, NO_OUTPUT, OUTPUT_LIST };
  Kind kind = INPUT;
  std::vector<Tensor> tensors;
  std::vector<int64_t> numbers;
  double real = 0;
  std::string text;
  double tolerance = 0;  // of an output of floats, absolute and relative; 0: every bit counts
  int64_t updates = -1;  // of an output: the argument whose memory it is, -1: its own
};

struct Case {
  std::string name;
  bool refused = false;  // the host side must turn the call down
  std::vector<Argument> arguments;
};

struct CaseFile {
  std::string type;
  std::vector<Case> cases;
};

// Throws std::runtime_error.
CaseFile ReadCases(const std::string& path);

}  // namespace launcher
