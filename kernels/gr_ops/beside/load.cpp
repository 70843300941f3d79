// libfbgemm_npu_api.so beside the package. Programs of the documents' stack load the plugin from there:
//     torch.ops.load_library(f"{sysconfig.get_path('purelib')}/libfbgemm_npu_api.so")
// Loading it is importing gr_ops, which loads fbgemm_gpu first and registers what Python alone can. Where there is no
// Python, it loads the package's libraries. Python is not linked: any version of it will do.
#include <dlfcn.h>

#include <cstdio>
#include <string>

namespace {

template <typename Function>
Function* of_python(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool python_is_there() {
  auto* initialized = of_python<int()>("Py_IsInitialized");
  return initialized != nullptr && initialized() != 0;
}

// PyRun_SimpleString writes what went wrong, with its traceback, to standard error.
void import_package() {
  const int state = of_python<int()>("PyGILState_Ensure")();
  of_python<int(const char*)>("PyRun_SimpleString")("__import__('gr_ops').load()");
  of_python<void(int)>("PyGILState_Release")(state);
}

void load_libraries() {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&load_libraries), &here) == 0) return;
  std::string folder = here.dli_fname;
  folder = folder.substr(0, folder.rfind('/') + 1) + "gr_ops/";
  for (const char* name : {"libgr_ops.so", "libfbgemm_npu_api.so"}) {
    if (dlopen((folder + name).c_str(), RTLD_NOW) == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  }
}

[[gnu::constructor]] void load() {
  if (python_is_there()) {
    import_package();
  } else {
    load_libraries();
  }
}

}  // namespace
