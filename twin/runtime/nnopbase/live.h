// The handles that exist: an address that is not among them is no handle, or one that was destroyed.
#pragma once
#include "twin/handles.h"

namespace twin {

void Enlist(const void* handle, HandleKind kind);

// False, with an error text, if `handle` is no live handle of that kind.
bool Strike(const void* handle, HandleKind kind);

template <class Handle>
Handle* Enlisted(Handle* handle) {
  Enlist(handle, KindOf<Handle>::VALUE);
  return handle;
}

// The destroy functions: null is accepted, what is not a live handle is refused.
template <class Handle>
aclnnStatus DestroyHandle(const Handle* handle) {
  if (handle == nullptr) {
    return 0;
  }
  if (!Strike(handle, KindOf<Handle>::VALUE)) {
    return 161002;
  }
  delete handle;
  return 0;
}

}  // namespace twin
