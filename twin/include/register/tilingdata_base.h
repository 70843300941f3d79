// Tiling data described by macros. Each class keeps its fields in order; the builder dumps them and writes the
// plain struct that the kernel reads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "register/op_def.h"

namespace optiling {

struct TilingField {
  std::string type;
  std::string name;
  std::size_t count;  // 0: not an array
  std::size_t offset;
  std::size_t bytes;
  bool nested;
};

class TilingDef {
 public:
  virtual ~TilingDef() = default;
  std::size_t GetDataSize() const { return (Layout().bytes + 7) / 8 * 8; }
  void SaveToBuffer(void* buffer, std::size_t capacity) const {
    if (buffer != nullptr && capacity >= GetDataSize()) {
      std::memset(buffer, 0, GetDataSize());
      Write(static_cast<unsigned char*>(buffer));
    }
  }

  struct Description {
    std::string name;
    std::vector<TilingField> fields;
    std::size_t bytes = 0;
  };
  const Description& Layout() const { return description_; }

  void Write(unsigned char* buffer) const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const auto& field = description_.fields[i];
      if (field.nested) {
        static_cast<const TilingDef*>(sources_[i])->Write(buffer + field.offset);
      } else {
        std::memcpy(buffer + field.offset, sources_[i], field.bytes);
      }
    }
  }

 protected:
  std::size_t Add(const char* type, const char* name, std::size_t count, std::size_t bytes, std::size_t alignment,
                  const void* source, bool nested) {
    const std::size_t offset = (description_.bytes + alignment - 1) / alignment * alignment;
    description_.fields.push_back({type, name, count, offset, bytes, nested});
    description_.bytes = offset + bytes;
    sources_.push_back(source);
    return offset;
  }
  Description description_;

 private:
  std::vector<const void*> sources_;
};

struct TilingClass {
  std::string op;
  TilingDef::Description layout;
};

inline std::vector<TilingClass>& TilingClasses() {
  static std::vector<TilingClass> classes;
  return classes;
}

template <typename Class>
bool RegisterTilingClass(const char* op) {
  TilingClasses().push_back({op, Class().Layout()});
  return true;
}

}  // namespace optiling

// The members refer to their own object, so these classes are neither copied nor moved.
#define BEGIN_TILING_DATA_DEF(Class)           \
  class Class : public ::optiling::TilingDef { \
   public:                                     \
    Class() { description_.name = #Class; }    \
    Class(const Class&) = delete;              \
    Class& operator=(const Class&) = delete;
#define TILING_DATA_FIELD_DEF(type, field)                                  \
  static_assert(std::is_arithmetic<type>::value, "type of a tiling field"); \
  void set_##field(type value) { field##_ = value; }                        \
  type get_##field() const { return field##_; }                             \
  type field##_ = 0;                                                        \
  const std::size_t field##Offset_ = Add(#type, #field, 0, sizeof(type), sizeof(type), &field##_, false);
#define TILING_DATA_FIELD_DEF_ARR(type, length, field)                                      \
  static_assert(std::is_arithmetic<type>::value, "type of a tiling field");                 \
  void set_##field(const type* values) { std::memcpy(field##_, values, sizeof(field##_)); } \
  type* get_##field() { return field##_; }                                                  \
  type field##_[length] = {};                                                               \
  const std::size_t field##Offset_ = Add(#type, #field, length, sizeof(field##_), sizeof(type), field##_, false);
#define TILING_DATA_FIELD_DEF_STRUCT(Struct, field) \
  Struct field;                                     \
  const std::size_t field##Offset_ =                \
      Add(#Struct, #field, 0, field.GetDataSize(), 8, static_cast<const ::optiling::TilingDef*>(&field), true);
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(OpType, Class) \
  static const bool g_##OpType##Class##Tiling = ::optiling::RegisterTilingClass<Class>(#OpType);
