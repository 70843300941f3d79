// The commonest shapes of aclnn functions, each a line where it is used: UNARY(aclnnAbs, at::abs).
#pragma once

#include "call.h"
#include "check.h"

#define UNARY(NAME, FUNCTION) \
  ACLNN_CHECKED(NAME, BROADCAST, (In, self), (Out, out)) { out = FUNCTION(self); }
#define UNARY_IN_PLACE(NAME, METHOD) \
  ACLNN(NAME, (InOut, self)) { self.METHOD(); }
#define BINARY(NAME, FUNCTION) \
  ACLNN_CHECKED(NAME, BROADCAST, (In, self), (In, other), (Out, out)) { out = FUNCTION(self, other); }
#define BINARY_SCALAR(NAME, FUNCTION) \
  ACLNN_CHECKED(NAME, BROADCAST, (In, self), (Number, other), (Out, out)) { out = FUNCTION(self, other); }
#define BINARY_IN_PLACE(NAME, METHOD) \
  ACLNN_CHECKED(NAME, BROADCAST_INTO_SELF, (InOut, self), (In, other)) { self.METHOD(other); }
#define SCALAR_IN_PLACE(NAME, METHOD) \
  ACLNN(NAME, (InOut, self), (Number, other)) { self.METHOD(other); }
