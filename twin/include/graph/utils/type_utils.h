// ge::TypeUtils: names and sizes of data types and formats.
#pragma once
#include <cstdint>
#include <string>

#include "graph/types.h"

namespace ge {

class TypeUtils {
 public:
  static std::string DataTypeToSerialString(DataType type) {
    for (const auto& entry : Types()) {
      if (entry.type == type) {
        return entry.name;
      }
    }
    return "UNDEFINED";
  }
  static DataType SerialStringToDataType(const std::string& name) {
    for (const auto& entry : Types()) {
      if (name == entry.name) {
        return entry.type;
      }
    }
    return DT_UNDEFINED;
  }
  static std::string FormatToSerialString(Format format) {
    for (const auto& entry : Formats()) {
      if (entry.format == format) {
        return entry.name;
      }
    }
    return "RESERVED";
  }
  static Format SerialStringToFormat(const std::string& name) {
    for (const auto& entry : Formats()) {
      if (name == entry.name) {
        return entry.format;
      }
    }
    return FORMAT_RESERVED;
  }
  // In bytes; false for a type that has no size of whole bytes.
  static bool GetDataTypeLength(DataType type, uint32_t& length) {
    const int bytes = GetSizeByDataType(type);
    if (bytes <= 0) {
      return false;
    }
    length = static_cast<uint32_t>(bytes);
    return true;
  }

 private:
  struct TypeName {
    DataType type;
    const char* name;
  };
  struct FormatName {
    Format format;
    const char* name;
  };
  static const TypeName (&Types())[18] {
    static const TypeName types[] = {
        {DT_FLOAT, "DT_FLOAT"},   {DT_FLOAT16, "DT_FLOAT16"},     {DT_INT8, "DT_INT8"},
        {DT_INT32, "DT_INT32"},   {DT_UINT8, "DT_UINT8"},         {DT_INT16, "DT_INT16"},
        {DT_UINT16, "DT_UINT16"}, {DT_UINT32, "DT_UINT32"},       {DT_INT64, "DT_INT64"},
        {DT_UINT64, "DT_UINT64"}, {DT_DOUBLE, "DT_DOUBLE"},       {DT_BOOL, "DT_BOOL"},
        {DT_STRING, "DT_STRING"}, {DT_COMPLEX64, "DT_COMPLEX64"}, {DT_COMPLEX128, "DT_COMPLEX128"},
        {DT_BF16, "DT_BF16"},     {DT_UNDEFINED, "DT_UNDEFINED"}, {DT_INT4, "DT_INT4"},
    };
    return types;
  }
  static const FormatName (&Formats())[9] {
    static const FormatName formats[] = {
        {FORMAT_NCHW, "NCHW"},
        {FORMAT_NHWC, "NHWC"},
        {FORMAT_ND, "ND"},
        {FORMAT_NC1HWC0, "NC1HWC0"},
        {FORMAT_HWCN, "HWCN"},
        {FORMAT_NDHWC, "NDHWC"},
        {FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
        {FORMAT_NCDHW, "NCDHW"},
        {FORMAT_NCL, "NCL"},
    };
    return formats;
  }
};

}  // namespace ge
