// The attributes of a legacy operator, as libascendcl keeps them for libacl_op_compiler.
#pragma once
#include <cstddef>
#include <cstdint>

#include "acl/acl_op.h"

extern "C" {

// Whether the attribute is there and is a float or an integer; writes it.
bool twinAttributeNumber(const aclopAttr* attr, const char* name, double* value);

// How many integers the list has, 0 if it is not there; they live as long as the attributes.
std::size_t twinAttributeIntegers(const aclopAttr* attr, const char* name, const int64_t** values);
}
