// aclopAttr of the legacy path: names and values, kept for libacl_op_compiler.
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "failure.h"
#include "twin/attribute.h"

using namespace twin;

using Value = std::variant<bool, int64_t, float, aclDataType, std::string, std::vector<bool>, std::vector<int64_t>,
                           std::vector<float>, std::vector<std::vector<int64_t>>>;

struct aclopAttr {
  std::map<std::string, Value> values;
};

namespace {

aclError Set(const char* function, aclopAttr* attr, const char* name, Value value) {
  if (attr == nullptr || name == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, "(attr=%p, attrName=%s): null", static_cast<void*>(attr),
                name == nullptr ? "null" : name);
  }
  attr->values.insert_or_assign(name, std::move(value));
  return ACL_SUCCESS;
}

template <typename Element, typename Source>
aclError SetList(const char* function, aclopAttr* attr, const char* name, int count, const Source* values) {
  if (count < 0 || (count > 0 && values == nullptr)) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, "(numValues=%d, values=%p)", count,
                static_cast<const void*>(values));
  }
  return Set(function, attr, name, std::vector<Element>(values, values + count));
}

}  // namespace

aclopAttr* aclopCreateAttr() { return new aclopAttr; }

void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }

aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue) {
  return Set(__func__, attr, attrName, attrValue != 0);
}

aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue) {
  return Set(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue) {
  return Set(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue) {
  return Set(__func__, attr, attrName, attrValue);
}

aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue) {
  return Set(__func__, attr, attrName, std::string(attrValue == nullptr ? "" : attrValue));
}

aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values) {
  return SetList<bool>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values) {
  return SetList<int64_t>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values) {
  return SetList<float>(__func__, attr, attrName, numValues, values);
}

aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* const values[]) {
  if (numLists < 0 || (numLists > 0 && (numValues == nullptr || values == nullptr))) {
    return Fail(ACL_ERROR_INVALID_PARAM, __func__, "(numLists=%d): null or negative", numLists);
  }
  std::vector<std::vector<int64_t>> lists;
  for (int index = 0; index < numLists; ++index) {
    lists.emplace_back(values[index], values[index] + numValues[index]);
  }
  return Set(__func__, attr, attrName, std::move(lists));
}

extern "C" __attribute__((visibility("default"))) bool twinAttributeNumber(const aclopAttr* attr, const char* name,
                                                                           double* value) {
  if (attr == nullptr) {
    return false;
  }
  const auto found = attr->values.find(name);
  if (found == attr->values.end()) {
    return false;
  }
  if (const auto* real = std::get_if<float>(&found->second)) {
    *value = *real;
  } else if (const auto* whole = std::get_if<int64_t>(&found->second)) {
    *value = static_cast<double>(*whole);
  } else if (const auto* truth = std::get_if<bool>(&found->second)) {
    *value = *truth ? 1 : 0;
  } else {
    return false;
  }
  return true;
}

extern "C" __attribute__((visibility("default"))) size_t twinAttributeIntegers(const aclopAttr* attr, const char* name,
                                                                               const int64_t** values) {
  *values = nullptr;
  if (attr == nullptr) {
    return 0;
  }
  const auto found = attr->values.find(name);
  const auto* list = found == attr->values.end() ? nullptr : std::get_if<std::vector<int64_t>>(&found->second);
  if (list == nullptr) {
    return 0;
  }
  *values = list->data();
  return list->size();
}

extern "C" __attribute__((visibility("default"))) const char* twinAttributeText(const aclopAttr* attr,
                                                                                const char* name) {
  if (attr == nullptr) {
    return nullptr;
  }
  const auto found = attr->values.find(name);
  const auto* text = found == attr->values.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text == nullptr ? nullptr : text->c_str();
}
