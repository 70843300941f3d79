// The two-phase protocol for operators that are written as a computation over CPU tensors.
//
//     ACLNN(aclnnAdd, (In, self), (In, other), (Number, alpha), (Out, out))
//     {
//         out = at::add(self, other, alpha);
//     }
//
// defines aclnnAddGetWorkspaceSize and aclnnAdd. ACLNN_CHECKED takes, after the name, a function that sees the held
// arguments in phase one and throws Refusal (check.h).
#pragma once
#include <functional>
#include <memory>
#include <tuple>
#include <utility>

#include <c10/util/FunctionRef.h>

#include "arguments.h"
#include "signature.h"
#include "twin/access.h"
#include "twin/stream.h"

namespace twin::opapi {

aclnnStatus Refuse(const char* operatorName, aclnnStatus status, const char* reason);

// Runs the computation below autograd: 0, or the code of a failed kernel with the text of its exception kept.
int32_t Compute(const char* operatorName, const std::function<void()>& computation);

// What an argument's tensors make the operator read or write.
template <class Held>
void AddAccesses(Accesses& accesses, const Held& held) {
  if constexpr (std::is_base_of_v<HeldTensor, Held>) {
    held.AddTo(accesses, std::is_base_of_v<HeldOutput, Held>);
  } else if constexpr (std::is_same_v<Held, HeldInputList> || std::is_same_v<Held, HeldOutputList>) {
    for (const auto& member : held.members) {
      AddAccesses(accesses, member);
    }
  }
}

// A call between its phases: the arguments that phase one has held.
class HeldCall {
 public:
  virtual ~HeldCall() = default;
  virtual void AddTo(Accesses& accesses) const = 0;
  virtual void Compute() const = 0;
};

// Phase one of every operator: `hold` makes and checks the call, or throws.
aclnnStatus Plan(const Signature& signature, c10::function_ref<std::unique_ptr<const HeldCall>()> hold,
                 uint64_t* workspaceSize, aclOpExecutor** executor);

// Phase two of every operator: runs the executor once and deletes it.
aclnnStatus Execute(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream);

constexpr auto UNCHECKED = [](const auto&...) {};

template <class... Kinds>
struct Operator {
  using Computation = void (*)(typename Argument<Kinds>::Value...);

  // What is no template, and the same for every operator, stands in twin::opapi::Plan: there are hundreds of operators.
  template <class Check>
  static aclnnStatus Plan(const Signature& signature, Computation computation, Check check,
                          typename Argument<Kinds>::Handle... handles, uint64_t* workspaceSize,
                          aclOpExecutor** executor) {
    const auto hold = [&]() -> std::unique_ptr<const HeldCall> {
      auto call = std::make_unique<const Call>(computation, signature, std::index_sequence_for<Kinds...>(), handles...);
      RequireMemory(workspaceSize, "workspaceSize");
      RequireMemory(executor, "executor");
      std::apply(check, call->held);
      return call;
    };
    return opapi::Plan(signature, hold, workspaceSize, executor);
  }

 private:
  struct Call final : HeldCall {
    template <size_t... I>
    Call(Computation function, const Signature& signature, std::index_sequence<I...>,
         typename Argument<Kinds>::Handle... handles)
        : computation(function), held{Argument<Kinds>::Hold(handles, signature.Name(I))...} {
      (signature.CheckType(I, std::get<I>(held)), ...);
    }
    void AddTo(Accesses& accesses) const override {
      std::apply([&](const auto&... each) { (AddAccesses(accesses, each), ...); }, held);
    }
    void Compute() const override {
      std::apply([&](const auto&... each) { computation(Argument<Kinds>::Open(each)...); }, held);
    }

    Computation computation;
    std::tuple<typename Argument<Kinds>::Held...> held;
  };
};

}  // namespace twin::opapi

// FOR_EACH(macro, (a, b), (c, d)) -> macro(a, b), macro(c, d)
#define TWIN_PARENS ()
#define TWIN_EXPAND(...) TWIN_EXPAND4(TWIN_EXPAND4(__VA_ARGS__))
#define TWIN_EXPAND4(...) TWIN_EXPAND3(TWIN_EXPAND3(TWIN_EXPAND3(TWIN_EXPAND3(__VA_ARGS__))))
#define TWIN_EXPAND3(...) TWIN_EXPAND2(TWIN_EXPAND2(TWIN_EXPAND2(TWIN_EXPAND2(__VA_ARGS__))))
#define TWIN_EXPAND2(...) __VA_ARGS__
#define TWIN_FOR_EACH(macro, ...) TWIN_EXPAND(TWIN_FOR_EACH_STEP(macro, __VA_ARGS__))
#define TWIN_FOR_EACH_STEP(macro, first, ...) \
  macro first __VA_OPT__(, TWIN_FOR_EACH_AGAIN TWIN_PARENS(macro, __VA_ARGS__))
#define TWIN_FOR_EACH_AGAIN() TWIN_FOR_EACH_STEP

#define TWIN_KIND(kind, name) kind
#define TWIN_NAME(kind, name) name
#define TWIN_NAME_TEXT(kind, name) #name
#define TWIN_HANDLE(kind, name) ::twin::opapi::Argument<kind>::Handle name
#define TWIN_VALUE(kind, name) [[maybe_unused]] ::twin::opapi::Argument<kind>::Value name

#define ACLNN_CHECKED(NAME, CHECK, ...)                                                                             \
  static void NAME##Compute(TWIN_FOR_EACH(TWIN_VALUE, __VA_ARGS__));                                                \
  /* never destroyed: torch_npu's threads may call while the process exits */                                       \
  static const auto& NAME##Signature =                                                                              \
      *new ::twin::opapi::Signature(#NAME, {TWIN_FOR_EACH(TWIN_NAME_TEXT, __VA_ARGS__)}, #__VA_ARGS__);             \
  extern "C" __attribute__((visibility("default"))) aclnnStatus NAME##GetWorkspaceSize(                             \
      TWIN_FOR_EACH(TWIN_HANDLE, __VA_ARGS__), uint64_t* workspaceSize, aclOpExecutor** executor) {                 \
    return ::twin::opapi::Operator<TWIN_FOR_EACH(TWIN_KIND, __VA_ARGS__)>::Plan(                                    \
        NAME##Signature, &NAME##Compute, CHECK, TWIN_FOR_EACH(TWIN_NAME, __VA_ARGS__), workspaceSize, executor);    \
  }                                                                                                                 \
  extern "C" __attribute__((visibility("default"))) aclnnStatus NAME(void* workspace, uint64_t workspaceSize,       \
                                                                     aclOpExecutor* executor, aclrtStream stream) { \
    return ::twin::opapi::Execute(workspace, workspaceSize, executor, stream);                                      \
  }                                                                                                                 \
  static void NAME##Compute(TWIN_FOR_EACH(TWIN_VALUE, __VA_ARGS__))

#define ACLNN(NAME, ...) ACLNN_CHECKED(NAME, ::twin::opapi::UNCHECKED, __VA_ARGS__)
