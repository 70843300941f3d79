# What the C++ of our wheels shares; included after project(). CMAKE_CXX_STANDARD may be given: headers of torch 2.11
# want 20.
if(NOT CMAKE_CXX_STANDARD)
  set(CMAKE_CXX_STANDARD 17)
endif()
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_options(-Wall -Wextra)
# In the toolchain's own builds, whose compiler is known. A user's compiler may warn of more.
if(DEFINED ENV{GRSTACK_OUT})
  add_compile_options(-Werror)
endif()
# No path of the build machine in the binary: the same sources give the same bytes.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)

# The C++ library that torch uses, as a shared one, also where the compiler would take its archive: a copy inside of ours
# shares some of its symbols with torch's and has others of its own, and the first error message ends the process.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.so.6
                OUTPUT_VARIABLE shared_libstdcxx OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(shared_libstdcxx "${shared_libstdcxx}" REALPATH)
if(EXISTS "${shared_libstdcxx}")
  link_libraries("${shared_libstdcxx}")
endif()

# Raises for variables that are not set: they are directories that the build backend asks of Python.
function(require_variables)
  file(RELATIVE_PATH place ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../.. ${CMAKE_SOURCE_DIR})
  foreach(variable ${ARGV})
    if(NOT DEFINED ${variable})
      message(FATAL_ERROR "${variable} is not set; build with: python -m pip wheel --no-deps --no-build-isolation ${place}")
    endif()
  endforeach()
endfunction()

# torch_headers: what a library needs to compile against the torch of TORCH_DIR, and to link it.
function(add_torch_headers)
  require_variables(TORCH_DIR TORCH_CXX11_ABI)
  add_library(torch_headers INTERFACE)
  target_include_directories(torch_headers SYSTEM INTERFACE
    ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
  target_compile_definitions(torch_headers INTERFACE _GLIBCXX_USE_CXX11_ABI=${TORCH_CXX11_ABI})
  target_compile_options(torch_headers INTERFACE -ffile-prefix-map=${TORCH_DIR}=torch)
  # at::parallel_for is a template: where OpenMP is off, it runs in one thread. Not linked: libtorch_cpu.so brings the
  # runtime, and a second one would have threads of its own, which torch.set_num_threads does not reach.
  target_compile_options(torch_headers INTERFACE -fopenmp)
  target_link_directories(torch_headers INTERFACE ${TORCH_DIR}/lib)
endfunction()
