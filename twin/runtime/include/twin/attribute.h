// The attributes and descriptors of a legacy operator, as libascendcl keeps them for those who compute it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl/acl_op.h"

extern "C" {

// Whether the attribute is there and is a float, an integer or a truth value; writes it.
bool twinAttributeNumber(const aclopAttr* attr, const char* name, double* value);

// How many integers the list has, 0 if it is not there; they live as long as the attributes.
std::size_t twinAttributeIntegers(const aclopAttr* attr, const char* name, const int64_t** values);

// The text of the attribute, null if it is not there; lives as long as the attributes.
const char* twinAttributeText(const aclopAttr* attr, const char* name);

// The shape that PyTorch sees, which of a private format is not the one in memory.
std::size_t twinTensorDescOrigin(const aclTensorDesc* desc, const int64_t** dims);

// Whether the data is the host's, to be read before the call returns.
bool twinTensorDescOnHost(const aclTensorDesc* desc);
}
