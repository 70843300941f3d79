#include "table.h"

namespace twin::smi {
namespace {
std::string Padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text.substr(0, width) : text + std::string(width - text.size(), ' ');
}
}  // namespace

void Table::Rule() {
  for (const std::size_t width : widths_) {
    text_ += "+" + std::string(width + 2, '-');
  }
  text_ += "+\n";
}

void Table::Row(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    text_ += "| " + Padded(i < cells.size() ? cells[i] : "", widths_[i]) + " ";
  }
  text_ += "|\n";
}

void Table::Line(const std::string& text) {
  std::size_t width = 3 * (widths_.size() - 1);
  for (const std::size_t column : widths_) {
    width += column;
  }
  text_ += "| " + Padded(text, width) + " |\n";
}
}  // namespace twin::smi
