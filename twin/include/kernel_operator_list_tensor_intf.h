// ListTensorDesc has a header of its own, which kernel_operator.h does not include.
#pragma once
#include "ascendc/list.h"
