# The functions of CANN's CMake package ASC (8.2 or newer).
set(package ${vendor_name})
set(ASCEND_AUTOGEN_PATH ${CMAKE_BINARY_DIR}/autogen)
file(MAKE_DIRECTORY ${ASCEND_AUTOGEN_PATH})
file(GLOB host_sources CONFIGURE_DEPENDS ${OPERATOR_DIR}/op_host/*.cpp)
include_directories(${COMMON_DIR} ${OPERATOR_DIR}/op_kernel)

npu_op_package(${package} TYPE RUN
  CONFIG ENABLE_SOURCE_PACKAGE True ENABLE_BINARY_PACKAGE True
  INSTALL_PATH ${CMAKE_BINARY_DIR}/)
npu_op_code_gen(SRC ${host_sources} PACKAGE ${package} OUT_DIR ${ASCEND_AUTOGEN_PATH}
  COMPILE_OPTIONS -I${COMMON_DIR} -I${OPERATOR_DIR}/op_kernel)

# The generator writes these when CMake configures.
file(GLOB aclnn_sources ${ASCEND_AUTOGEN_PATH}/aclnn_*.cpp)
npu_op_library(cust_opapi ACLNN ${aclnn_sources})
npu_op_library(cust_op_proto GRAPH ${host_sources} ${ASCEND_AUTOGEN_PATH}/op_proto.cc)
npu_op_library(cust_optiling TILING ${host_sources})
npu_op_kernel_options(ascendc_kernels ALL OPTIONS -I${COMMON_DIR} -I${OPERATOR_DIR}/op_kernel)
npu_op_kernel_library(ascendc_kernels SRC_BASE ${OPERATOR_DIR}/op_kernel/ TILING_LIBRARY cust_optiling)
npu_op_package_add(${package} LIBRARY cust_opapi cust_optiling cust_op_proto ascendc_kernels)
