#include "case_file.h"

#include <fstream>
#include <stdexcept>

namespace launcher {

namespace {

class Reader {
 public:
  explicit Reader(const std::string& path) : in_(path, std::ios::binary) {
    if (!in_) {
      throw std::runtime_error("cannot read " + path);
    }
  }
  int64_t Number() {
    int64_t value = 0;
    Bytes(&value, sizeof(value));
    return value;
  }
  double Real() {
    double value = 0;
    Bytes(&value, sizeof(value));
    return value;
  }
  std::vector<int64_t> Numbers() {
    std::vector<int64_t> values(Count());
    for (auto& value : values) {
      value = Number();
    }
    return values;
  }
  std::string Text() {
    std::string text(Count(), '\0');
    Bytes(text.data(), text.size());
    return text;
  }
  std::vector<unsigned char> Block() {
    std::vector<unsigned char> bytes(Count());
    Bytes(bytes.data(), bytes.size());
    return bytes;
  }
  std::size_t Count() {
    const int64_t count = Number();
    if (count < 0 || count > (int64_t{1} << 32)) {
      throw std::runtime_error("the case file is damaged");
    }
    return static_cast<std::size_t>(count);
  }

 private:
  void Bytes(void* to, std::size_t count) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(count));
    if (!in_) {
      throw std::runtime_error("the case file ends early");
    }
  }
  std::ifstream in_;
};

Tensor ReadTensor(Reader& reader) {
  Tensor tensor;
  tensor.dataType = static_cast<int32_t>(reader.Number());
  tensor.dims = reader.Numbers();
  tensor.bytes = reader.Block();
  return tensor;
}

Argument ReadArgument(Reader& reader) {
  Argument argument;
  argument.kind = static_cast<Argument::Kind>(reader.Number());
  std::size_t count = 0;
  switch (argument.kind) {
    case Argument::INT:
    case Argument::TRUTH:
    case Argument::INT_LIST:
      argument.numbers = reader.Numbers();
      break;
    case Argument::REAL:
      argument.real = reader.Real();
      break;
    case Argument::TEXT:
      argument.text = reader.Text();
      break;
    case Argument::OUTPUT:
      argument.updates = reader.Number();
      argument.tolerance = reader.Real();
      argument.tensors.push_back(ReadTensor(reader));
      break;
    case Argument::OUTPUT_LIST:
      argument.tolerance = reader.Real();
      [[fallthrough]];
    case Argument::INPUT:
    case Argument::INPUT_LIST:
      count = reader.Count();
      for (std::size_t i = 0; i < count; ++i) {
        argument.tensors.push_back(ReadTensor(reader));
      }
      break;
    case Argument::NO_INPUT:
    case Argument::NO_OUTPUT:
      break;
    default:
      throw std::runtime_error("the case file holds an unknown argument");
  }
  return argument;
}

}  // namespace

CaseFile ReadCases(const std::string& path) {
  Reader reader(path);
  CaseFile file;
  file.type = reader.Text();
  const std::size_t cases = reader.Count();
  for (std::size_t i = 0; i < cases; ++i) {
    Case one;
    one.name = reader.Text();
    one.refused = reader.Number() != 0;
    const std::size_t arguments = reader.Count();
    for (std::size_t a = 0; a < arguments; ++a) {
      one.arguments.push_back(ReadArgument(reader));
    }
    file.cases.push_back(one);
  }
  return file;
}

}  // namespace launcher
