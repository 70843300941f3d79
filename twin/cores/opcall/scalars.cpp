#include "scalars.h"

#include <cstring>

#include "twin/float16.h"

namespace twin {

namespace {

template <typename T>
T Loaded(const aclScalar& scalar) {
  T value;
  std::memcpy(&value, scalar.value, sizeof(T));
  return value;
}

// A whole number or a floating one: integers of 64 bits are no doubles.
struct Number {
  bool known = true;
  bool whole = false;
  int64_t integer = 0;
  double real = 0;
};

Number Whole(int64_t value) { return {true, true, value, static_cast<double>(value)}; }
Number Real(double value) { return {true, false, static_cast<int64_t>(value), value}; }

Number NumberOf(const aclScalar& scalar) {
  switch (static_cast<ge::DataType>(scalar.dataType)) {
    case ge::DT_FLOAT:
      return Real(static_cast<double>(Loaded<float>(scalar)));
    case ge::DT_DOUBLE:
      return Real(Loaded<double>(scalar));
    case ge::DT_FLOAT16:
      return Real(static_cast<double>(Half::ToFloat(Loaded<Half>(scalar))));
    case ge::DT_BF16:
      return Real(static_cast<double>(BFloat16::ToFloat(Loaded<BFloat16>(scalar))));
    case ge::DT_INT8:
      return Whole(Loaded<int8_t>(scalar));
    case ge::DT_INT16:
      return Whole(Loaded<int16_t>(scalar));
    case ge::DT_INT32:
      return Whole(Loaded<int32_t>(scalar));
    case ge::DT_INT64:
      return Whole(Loaded<int64_t>(scalar));
    case ge::DT_UINT8:
    case ge::DT_BOOL:
      return Whole(Loaded<uint8_t>(scalar));
    default:
      return {false, false, 0, 0};
  }
}

template <typename T>
bool Append(T value, std::vector<unsigned char>& bytes) {
  const auto* from = reinterpret_cast<const unsigned char*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
  return true;
}

}  // namespace

bool AppendScalar(const aclScalar& scalar, ge::DataType type, std::vector<unsigned char>& bytes) {
  const Number number = NumberOf(scalar);
  if (!number.known) {
    return false;
  }
  switch (type) {
    case ge::DT_FLOAT:
      return Append(static_cast<float>(number.real), bytes);
    case ge::DT_DOUBLE:
      return Append(number.real, bytes);
    case ge::DT_FLOAT16:
      return Append(Half::FromFloat(static_cast<float>(number.real)).bits, bytes);
    case ge::DT_BF16:
      return Append(BFloat16::FromFloat(static_cast<float>(number.real)).bits, bytes);
    case ge::DT_INT8:
      return Append(static_cast<int8_t>(number.integer), bytes);
    case ge::DT_INT16:
      return Append(static_cast<int16_t>(number.integer), bytes);
    case ge::DT_INT32:
      return Append(static_cast<int32_t>(number.integer), bytes);
    case ge::DT_INT64:
      return Append(number.integer, bytes);
    case ge::DT_UINT8:
      return Append(static_cast<uint8_t>(number.integer), bytes);
    case ge::DT_BOOL:
      return Append(static_cast<uint8_t>(number.whole ? number.integer != 0 : number.real != 0), bytes);
    default:
      return false;
  }
}

}  // namespace twin
