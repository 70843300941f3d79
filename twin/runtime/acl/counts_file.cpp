#include "counts_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "log.h"

namespace twin {
namespace {

constexpr int kSchema = 1;

std::string Rank() {
  const char* rank = std::getenv("RANK");
  return rank == nullptr || *rank == '\0' ? "0" : rank;
}

// %p stands for the process id, %r for the rank, %% for a percent sign.
std::string Expanded(const std::string& pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'p') {
      path += std::to_string(getpid());
    } else if (next == 'r') {
      path += Rank();
    } else if (next == '%') {
      path += '%';
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Joins members of an object or a list.
class Joined {
 public:
  explicit Joined(const char* brackets) : brackets_(brackets) {}
  void Add(const std::string& member) {
    members_ += members_.empty() ? "" : ",";
    members_ += member;
  }
  void Add(const std::string& name, const std::string& value) { Add(Quoted(name) + ":" + value); }
  void Add(const std::string& name, uint64_t value) { Add(name, std::to_string(value)); }
  std::string Text() const { return brackets_[0] + members_ + brackets_[1]; }

 private:
  const char* brackets_;
  std::string members_;
};

template <std::size_t N>
std::string ByKind(const std::array<const char*, N>& names,
                   const std::array<std::map<std::string, uint64_t>, N>& kinds) {
  Joined object("{}");
  for (std::size_t i = 0; i < N; ++i) {
    Joined members("{}");
    for (const auto& [name, count] : kinds[i]) {
      members.Add(name, count);
    }
    object.Add(names[i], members.Text());
  }
  return object.Text();
}

const char* WayName(aclrtMemcpyKind way) {
  switch (way) {
    case ACL_MEMCPY_HOST_TO_DEVICE:
      return "host_to_device";
    case ACL_MEMCPY_DEVICE_TO_HOST:
      return "device_to_host";
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      return "device_to_device";
    default:
      return "host_to_host";
  }
}

std::string CopiesOf(const Tally& tally) {
  Joined list("[]");
  for (const auto& [kind, copied] : tally.copies) {
    Joined row("{}");
    row.Add("way", Quoted(WayName(kind.way)));
    row.Add("pinned", kind.pinned ? "true" : "false");
    row.Add("blocking", kind.blocking ? "true" : "false");
    row.Add("count", copied.count);
    row.Add("bytes", copied.bytes);
    list.Add(row.Text());
  }
  return list.Text();
}

std::string PlacesOf(const Tally& tally) {
  Joined list("[]");
  for (const auto& [place, count] : tally.places) {
    Joined row("{}");
    row.Add("call", Quoted(place.first));
    row.Add("at", Quoted(place.second));
    row.Add("count", count);
    list.Add(row.Text());
  }
  return list.Text();
}

std::string KernelsOf(const Tally& tally) {
  Joined object("{}");
  for (const auto& [name, work] : tally.kernels) {
    Joined members("{}");
    members.Add("launches", work.launches);
    members.Add("bytes_read", work.bytesRead);
    members.Add("bytes_written", work.bytesWritten);
    members.Add("products", work.products);
    if (work.hbmRead + work.hbmWritten != 0) {
      members.Add("hbm_read", work.hbmRead);
      members.Add("hbm_written", work.hbmWritten);
    }
    object.Add(name, members.Text());
  }
  return object.Text();
}

std::string MemoryOf(const Tally& tally, const std::vector<std::size_t>& used) {
  Joined list("[]");
  for (std::size_t device = 0; device < used.size(); ++device) {
    Joined row("{}");
    row.Add("device", device);
    row.Add("bytes", used[device]);
    row.Add("peak_bytes", tally.peaks[device]);
    list.Add(row.Text());
  }
  return list.Text();
}

}  // namespace

CountsFile& CountsFile::Get() {
  static CountsFile& file = *new CountsFile;
  return file;
}

CountsFile::CountsFile() {
  const std::string path = Expanded(GetSettings().counts);
  // Processes that share a file append: a line is one write.
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) {
    fault_ = "TWIN_COUNTS='" + GetSettings().counts + "': cannot write " + path + ": " + std::strerror(errno);
  }
  process_ = "\"pid\":" + std::to_string(getpid()) + ",\"rank\":" + Quoted(Rank()) +
             ",\"began\":" + std::to_string(static_cast<long long>(std::time(nullptr)));
}

void CountsFile::Write(const std::string& head, const Tally& tally, const std::vector<std::size_t>& used) {
  const std::string line = "{\"schema\":" + std::to_string(kSchema) + "," + head + "," + process_ +
                           ",\"emulated\":true,\"launches\":" + ByKind(kLaunchNames, tally.launches) +
                           ",\"waits\":" + ByKind(kWaitNames, tally.waits) + ",\"copies\":" + CopiesOf(tally) +
                           ",\"places\":" + PlacesOf(tally) + ",\"memory\":" + MemoryOf(tally, used) +
                           ",\"kernels\":" + KernelsOf(tally) + "}\n";
  if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    Log(ACL_ERROR, "TWIN_COUNTS: a line could not be written: %s", std::strerror(errno));
  }
}

void CountsFile::Step(uint64_t index, const std::string& name, const Tally& tally,
                      const std::vector<std::size_t>& used) {
  Write("\"kind\":\"step\",\"index\":" + std::to_string(index) + ",\"name\":" + Quoted(name), tally, used);
}

void CountsFile::Total(uint64_t steps, const Tally& tally, const std::vector<std::size_t>& used) {
  Write("\"kind\":\"total\",\"steps\":" + std::to_string(steps), tally, used);
}

}  // namespace twin
