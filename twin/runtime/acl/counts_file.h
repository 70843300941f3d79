// The file of TWIN_COUNTS: JSON, one document a line, each written at once so that every line is whole.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "counts.h"

namespace twin {

class CountsFile {
 public:
  static CountsFile& Get();

  // Empty, or why the file cannot be written.
  const std::string& Fault() const { return fault_; }
  void Step(uint64_t index, const std::string& name, const Tally& tally, const std::vector<std::size_t>& used);
  void Total(uint64_t steps, const Tally& tally, const std::vector<std::size_t>& used);

 private:
  CountsFile();
  void Write(const std::string& head, const Tally& tally, const std::vector<std::size_t>& used);

  int file_ = -1;
  std::string fault_;
  std::string process_;  // members that are the same in every line of this process
};

}  // namespace twin
