# CANN's classic operator project: a skeleton by msopgen, with our sources, built by its own build.sh.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_target(package
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/msopgen_project.py
    --msopgen ${MSOPGEN} --operator ${OPERATOR_DIR} --common ${COMMON_DIR} --toolkit ${ASCEND_CANN_PACKAGE_PATH}
    --compute-unit "${ASCEND_COMPUTE_UNIT}" --vendor ${vendor_name}
    --python ${ASCEND_PYTHON_EXECUTABLE} --out ${CMAKE_BINARY_DIR}
  VERBATIM)
