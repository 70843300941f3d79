#include "settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>

#include "acl/acl.h"
#include "soc.h"

namespace twin {
namespace {

constexpr int64_t kMaxDevices = 64;
constexpr std::size_t kDefaultMemory = std::size_t{8} << 30;
constexpr std::array<const char*, 5> kLevels = {"debug", "info", "warning", "error", "off"};

std::optional<std::string> Variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

std::optional<int64_t> Integer(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0) {
    return std::nullopt;
  }
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0') {
    return std::nullopt;
  }
  return value;
}

class Reader {
 public:
  int64_t Number(const char* name, int64_t fallback, int64_t low, int64_t high) {
    const auto text = Variable(name);
    if (!text) {
      return fallback;
    }
    const auto value = Integer(*text);
    if (!value || *value < low || *value > high) {
      Fault(name, *text, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
      return fallback;
    }
    return *value;
  }

  template <typename Choices>
  std::string Choice(const char* name, const std::string& fallback, const Choices& choices) {
    const auto text = Variable(name);
    if (!text || std::find(choices.begin(), choices.end(), *text) != choices.end()) {
      return text.value_or(fallback);
    }
    std::string wanted = "one of";
    for (const auto& choice : choices) {
      wanted += ' ';
      wanted += choice;
    }
    Fault(name, *text, wanted);
    return fallback;
  }

  void Fault(const char* name, const std::string& value, const std::string& wanted) {
    faults_ += (faults_.empty() ? "" : "; ") + std::string(name) + "='" + value + "' is not " + wanted;
  }

  const std::string& Faults() const { return faults_; }

 private:
  std::string faults_;
};

// As the platform's runtime does, the list ends at the first entry that names no device.
std::vector<int32_t> VisibleDevices(int64_t count) {
  std::vector<int32_t> devices;
  const char* list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int64_t id = 0; id < count; ++id) {
      devices.push_back(static_cast<int32_t>(id));
    }
    return devices;
  }
  std::istringstream entries(list);
  std::string entry;
  while (std::getline(entries, entry, ',')) {
    entry.erase(std::remove(entry.begin(), entry.end(), ' '), entry.end());
    const auto id = Integer(entry);
    const bool taken = id && std::find(devices.begin(), devices.end(), *id) != devices.end();
    if (!id || *id >= count || taken) {
      break;
    }
    devices.push_back(static_cast<int32_t>(*id));
  }
  return devices;
}

int LogLevel(Reader& reader) {
  const auto global = reader.Number("ASCEND_GLOBAL_LOG_LEVEL", ACL_ERROR, ACL_DEBUG, ACL_ERROR + 1);
  const auto name = reader.Choice("TWIN_LOG", kLevels[static_cast<std::size_t>(global)], kLevels);
  const auto* const found = std::find(kLevels.begin(), kLevels.end(), name);
  return static_cast<int>(found - kLevels.begin());
}

// A name such as 8.3.RC1, 8.2.RC1.alpha002 or 8.1.0: torch_npu parses it and raises on anything else.
bool IsVersion(const std::string& text) {
  return std::count(text.begin(), text.end(), '.') >= 2 && std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
         text.size() < ACL_PKG_VERSION_MAX_SIZE;
}

Settings Read() {
  Reader reader;
  Settings settings;
  settings.devices = VisibleDevices(reader.Number("TWIN_NPU_COUNT", 2, 0, kMaxDevices));
  settings.soc = reader.Choice("TWIN_NPU_SOC", "Ascend910B2", SocNames());
  settings.cannVersion = Variable("TWIN_CANN_VERSION").value_or("8.3.RC1");
  if (!IsVersion(settings.cannVersion)) {
    reader.Fault("TWIN_CANN_VERSION", settings.cannVersion, "a version such as 8.3.RC1");
  }
  settings.memoryPerDevice =
      static_cast<std::size_t>(reader.Number("TWIN_NPU_MEMORY", kDefaultMemory, int64_t{1} << 20, int64_t{1} << 46));
  settings.aten = reader.Choice("TWIN_ATEN", "", std::array<const char*, 2>{"override", "aclnn"});
  settings.strictStreams =
      reader.Choice("TWIN_STREAMS", "free", std::array<const char*, 2>{"free", "strict"}) == "strict";
  settings.computes = reader.Choice("TWIN_COMPUTE", "on", std::array<const char*, 2>{"on", "off"}) == "on";
  if (!settings.computes && settings.aten != "aclnn") {
    reader.Fault("TWIN_COMPUTE", "off", "possible without TWIN_ATEN=aclnn: the override computes on the host");
  }
  settings.counts = Variable("TWIN_COUNTS").value_or("");
  reader.Number("TWIN_COUNTS_L2", 0, 512, int64_t{1} << 40);  // the cores read it
  settings.logLevel = LogLevel(reader);
  settings.faults = reader.Faults();
  return settings;
}

}  // namespace

const Settings& GetSettings() {
  static const Settings& settings = *new Settings(Read());
  return settings;
}

}  // namespace twin
