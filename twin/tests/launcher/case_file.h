// Calls of an operator with the results that they must have, as twin/tests/launcher/cases.py writes them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace launcher {

struct Tensor {
    int32_t dataType = 0;
    std::vector<int64_t> dims;
    std::vector<unsigned char> bytes;      // of an output: the expected ones
};

struct Argument {
    enum Kind : int64_t { INPUT, INPUT_LIST, INT, INT_LIST, OUTPUT };
    Kind kind = INPUT;
    std::vector<Tensor> tensors;
    std::vector<int64_t> numbers;
};

struct Case {
    std::string name;
    bool refused = false;                  // the host side must turn the call down
    std::vector<Argument> arguments;
};

struct CaseFile {
    std::string type;
    std::vector<Case> cases;
};

// Throws std::runtime_error.
CaseFile ReadCases(const std::string &path);

}
