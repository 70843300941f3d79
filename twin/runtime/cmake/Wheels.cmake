# Where the torch and torch_npu wheels lie: TORCH_DIR, TORCH_NPU_DIR (package folders) and TORCH_CXX11_ABI (0 or 1).
# torch_npu must not be imported here: it cannot be before the libraries exist.
set(PYTHON python3 CACHE STRING "Python that has the torch and torch_npu wheels")

function(twin_ask_python variable program)
    if(DEFINED ${variable} AND NOT "${${variable}}" STREQUAL "")
        return()
    endif()
    execute_process(
        COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 ${PYTHON} -c "${program}"
        OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "${variable} is not given and ${PYTHON} cannot tell it; pass -DPYTHON=<python> of an "
                            "environment with torch and torch_npu installed, or -D${variable}=...")
    endif()
    set(${variable} "${answer}" CACHE STRING "from ${PYTHON}" FORCE)
endfunction()

set(locate "import importlib.util as u; print(u.find_spec('NAME').submodule_search_locations[0])")
string(REPLACE NAME torch locate_torch "${locate}")
string(REPLACE NAME torch_npu locate_torch_npu "${locate}")
twin_ask_python(TORCH_DIR "${locate_torch}")
twin_ask_python(TORCH_NPU_DIR "${locate_torch_npu}")
twin_ask_python(TORCH_CXX11_ABI "import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))")

# The ACL and HCCL interface, from the wheel's own headers.
add_library(twin_headers INTERFACE)
target_include_directories(twin_headers INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_include_directories(twin_headers SYSTEM INTERFACE
    ${TORCH_NPU_DIR}/include/third_party/acl/inc ${TORCH_NPU_DIR}/include/third_party/hccl/inc)
target_compile_definitions(twin_headers INTERFACE FUNC_VISIBILITY)

# libtorch for those parts that compute with it; they follow its C++ ABI.
add_library(twin_torch INTERFACE)
target_include_directories(twin_torch SYSTEM INTERFACE
    ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(twin_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=${TORCH_CXX11_ABI})
target_link_libraries(twin_torch INTERFACE ${TORCH_DIR}/lib/libtorch_cpu.so ${TORCH_DIR}/lib/libc10.so)
