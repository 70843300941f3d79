#include "python_place.h"

#include <dlfcn.h>

#include <cstring>

namespace twin {
namespace {

// The interpreter's own functions, of its stable interface. They are looked up: the runtime also serves programs
// without Python, and every version of it.
struct Python {
  int (*isInitialized)();
  int (*isFinalizing)();  // null from 3.13 on, whose name is another
  void* (*threadState)();
  int (*ensure)();
  void (*release)(int);
  void* (*frame)();
  void* (*back)(void*);
  void* (*code)(void*);
  int (*line)(void*);
  void* (*attribute)(void*, const char*);
  const char* (*utf8)(void*);
  void (*decrement)(void*);
  void (*increment)(void*);
  void (*clearError)();

  bool Complete() const {
    return isInitialized && threadState && ensure && release && frame && back && code && line && attribute && utf8 &&
           decrement && increment && clearError;
  }
};

template <typename Function>
void Find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const Python& GetPython() {
  static const Python& python = *[] {
    auto* found = new Python{};
    Find(found->isInitialized, "Py_IsInitialized");
    Find(found->isFinalizing, "_Py_IsFinalizing");
    if (found->isFinalizing == nullptr) {
      Find(found->isFinalizing, "Py_IsFinalizing");
    }
    Find(found->threadState, "PyGILState_GetThisThreadState");
    Find(found->ensure, "PyGILState_Ensure");
    Find(found->release, "PyGILState_Release");
    Find(found->frame, "PyEval_GetFrame");
    Find(found->back, "PyFrame_GetBack");
    Find(found->code, "PyFrame_GetCode");
    Find(found->line, "PyFrame_GetLineNumber");
    Find(found->attribute, "PyObject_GetAttrString");
    Find(found->utf8, "PyUnicode_AsUTF8");
    Find(found->decrement, "Py_DecRef");
    Find(found->increment, "Py_IncRef");
    Find(found->clearError, "PyErr_Clear");
    return found;
  }();
  return python;
}

bool IsLibrary(const char* file) {
  return std::strstr(file, "/site-packages/torch/") != nullptr ||
         std::strstr(file, "/site-packages/torch_npu/") != nullptr || std::strncmp(file, "<frozen", 7) == 0;
}

std::string PlaceOf(const Python& python, void* frame) {
  void* code = python.code(frame);
  void* name = python.attribute(code, "co_filename");
  const char* file = name == nullptr ? nullptr : python.utf8(name);
  std::string place;
  if (file == nullptr) {
    python.clearError();
  } else if (!IsLibrary(file)) {
    place = std::string(file) + ":" + std::to_string(python.line(frame));
  }
  python.decrement(name);  // null is passed over
  python.decrement(code);
  return place;
}

}  // namespace

std::string PythonPlace() {
  const Python& python = GetPython();
  // A thread that Python does not know has no frame, and one must not wait for Python while it shuts down.
  if (!python.Complete() || python.isInitialized() == 0 || python.threadState() == nullptr ||
      (python.isFinalizing != nullptr && python.isFinalizing() != 0)) {
    return "";
  }
  const int held = python.ensure();
  std::string place;
  void* frame = python.frame();
  python.increment(frame);
  while (frame != nullptr && place.empty()) {
    place = PlaceOf(python, frame);
    void* back = python.back(frame);
    python.decrement(frame);
    frame = back;
  }
  python.decrement(frame);
  python.release(held);
  return place;
}

}  // namespace twin
