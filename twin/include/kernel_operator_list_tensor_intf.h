// ListTensorDesc has a header of its own, which kernel_operator.h does not include (A.16).
#pragma once
#include "ascendc/list.h"
