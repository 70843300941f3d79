// Text in boxes, as tools of this kind print it.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace twin::smi {
class Table {
 public:
  explicit Table(std::vector<std::size_t> widths) : widths_(std::move(widths)) {}

  void Rule();
  void Row(const std::vector<std::string>& cells);
  // One cell over the whole width.
  void Line(const std::string& text);
  const std::string& Text() const { return text_; }

 private:
  std::vector<std::size_t> widths_;
  std::string text_;
};
}  // namespace twin::smi
