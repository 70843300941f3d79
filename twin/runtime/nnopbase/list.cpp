// aclTensorList, aclScalarList: they take over their members and destroy them.
#include "interface.h"
#include "live.h"

using namespace twin;

namespace {

template <typename List, typename Member>
List* Create(const char* refusal, const Member* const* members, uint64_t size) {
  if (members == nullptr && size != 0) {
    twinSetErrorMessage(refusal);
    return nullptr;
  }
  auto* list = new List{};
  for (uint64_t index = 0; index < size; ++index) {
    list->values.push_back(const_cast<Member*>(members[index]));
  }
  return Enlisted(list);
}

template <typename List>
int Destroy(const List* list) {
  if (list != nullptr && twinHandleKind(list) == KindOf<List>::VALUE) {
    for (const auto* member : list->values) {
      DestroyHandle(member);
    }
  }
  return DestroyHandle(list);
}

}  // namespace

extern "C" {

TWIN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  return Create<aclTensorList>("[twin] aclCreateTensorList: null", value, size);
}

TWIN_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  return Create<aclScalarList>("[twin] aclCreateScalarList: null", value, size);
}

TWIN_API int aclDestroyTensorList(const aclTensorList* list) { return Destroy(list); }
TWIN_API int aclDestroyScalarList(const aclScalarList* list) { return Destroy(list); }

TWIN_API int aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
  if (list == nullptr || size == nullptr) {
    return RefuseNull("[twin] aclGetTensorListSize: null");
  }
  *size = list->values.size();
  return kAclnnSuccess;
}
}
