# The functions of CANN's CMake package ASC (8.2 or newer).
set(package ${vendor_name})
set(ASCEND_AUTOGEN_PATH ${CMAKE_BINARY_DIR}/autogen)
file(MAKE_DIRECTORY ${ASCEND_AUTOGEN_PATH})
file(GLOB host_sources CONFIGURE_DEPENDS ${OPERATOR_DIR}/op_host/*.cpp)
include_directories(${COMMON_DIR} ${OPERATOR_DIR}/op_kernel)

# The package ships the folder SRC_BASE and nothing beside it, and compiles it again on the user's machine: the shared
# headers stand in it, and no option names a folder of this machine.
set(kernel_sources ${CMAKE_BINARY_DIR}/kernel_sources)
file(GLOB own_files RELATIVE ${OPERATOR_DIR}/op_kernel CONFIGURE_DEPENDS ${OPERATOR_DIR}/op_kernel/*.cpp
  ${OPERATOR_DIR}/op_kernel/*.h)
file(GLOB common_files RELATIVE ${COMMON_DIR} CONFIGURE_DEPENDS ${COMMON_DIR}/*.h)
foreach(name ${common_files})
  if(name IN_LIST own_files)
    message(FATAL_ERROR "${name} stands in ${OPERATOR_DIR}/op_kernel and in ${COMMON_DIR}; rename one of the two")
  endif()
endforeach()
file(REMOVE_RECURSE ${kernel_sources})
foreach(name ${own_files})
  configure_file(${OPERATOR_DIR}/op_kernel/${name} ${kernel_sources}/${name} COPYONLY)
endforeach()
foreach(name ${common_files})
  configure_file(${COMMON_DIR}/${name} ${kernel_sources}/${name} COPYONLY)
endforeach()

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
npu_op_kernel_library(ascendc_kernels SRC_BASE ${kernel_sources}/ TILING_LIBRARY cust_optiling)
npu_op_package_add(${package} LIBRARY cust_opapi cust_optiling cust_op_proto ascendc_kernels)
