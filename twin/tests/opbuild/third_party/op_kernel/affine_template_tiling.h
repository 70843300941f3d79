// Read by both sides: a plain struct, and the kernel's template parameters.
#pragma once
#include <cstdint>

#include "ascendc/host_api/tiling/template_argument.h"

struct AffineTemplateTiling {
  uint32_t length;
  uint32_t tileLength;
  float scale;
  float shift;
};

ASCENDC_TPL_ARGS_DECL(AffineTemplate, ASCENDC_TPL_DATATYPE_DECL(D_T_X, C_DT_FLOAT, C_DT_FLOAT16, ASCENDC_TPL_INPUT(0)),
                      ASCENDC_TPL_UINT_DECL(BUFFERS, ASCENDC_TPL_8_BW, ASCENDC_TPL_UI_MIX, 1, 1, 3, 8),
                      ASCENDC_TPL_BOOL_DECL(HAS_SHIFT, 0, 1), );

ASCENDC_TPL_SEL(
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_AIV_ONLY), ASCENDC_TPL_DATATYPE_SEL(D_T_X, C_DT_FLOAT),
                         ASCENDC_TPL_UINT_SEL(BUFFERS, ASCENDC_TPL_UI_LIST, 1, 2),
                         ASCENDC_TPL_BOOL_SEL(HAS_SHIFT, 0, 1), ASCENDC_TPL_TILING_STRUCT_SEL(AffineTemplateTiling)),
    ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_DATATYPE_SEL(D_T_X, C_DT_FLOAT16),
                         ASCENDC_TPL_UINT_SEL(BUFFERS, ASCENDC_TPL_UI_RANGE, 1, 1, 2),
                         ASCENDC_TPL_BOOL_SEL(HAS_SHIFT, 1), ASCENDC_TPL_TILING_STRUCT_SEL(AffineTemplateTiling)), );
