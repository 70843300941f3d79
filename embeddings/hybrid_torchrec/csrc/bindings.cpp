#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "common/arena.h"
#include "common/mix.h"
#include "common/xxh64.h"
#include "ids/distinct.h"
#include "ids/index.h"
#include "rows/initializers.h"
#include "rows/types.h"

// The classes and operators that the Python package uses. The interpreter's lock is free during a call.
namespace hybrid_torchrec {
namespace {

at::Tensor long_tensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

std::vector<int64_t> long_vector(const at::Tensor& tensor) {
  const int64_t* data = tensor.const_data_ptr<int64_t>();
  return std::vector<int64_t>(data, data + tensor.numel());
}

at::Tensor checked_ids(const at::Tensor& ids, const char* what) {
  TORCH_CHECK(ids.dim() == 1 && ids.scalar_type() == at::kLong && ids.device().is_cpu(), what,
              " must be int64 of one dimension on the CPU; got ", ids.scalar_type(), " of shape ", ids.sizes(), " on ",
              ids.device());
  return ids.contiguous();
}

// Memory of a table's rows, as tensors that stay valid while the memory is only extended.
class RowMemory : public torch::CustomClassHolder {
 public:
  explicit RowMemory(int64_t reserve)
      : arena_(std::make_shared<Arena>(reserve > 0 ? std::min(static_cast<size_t>(reserve), Arena::kUnlimited)
                                                   : Arena::kUnlimited)) {}

  // (rows, width); rows that were not there before are zero.
  at::Tensor tensor(int64_t rows, int64_t width, at::ScalarType dtype) {
    const auto bytes = static_cast<size_t>(rows * width) * c10::elementSize(dtype);
    arena_->grow(bytes);
    return at::from_blob(arena_->data(), {rows, width}, [keep = arena_](void*) {}, at::TensorOptions().dtype(dtype));
  }

 private:
  std::shared_ptr<Arena> arena_;
};

// Of files; see checkpoint/files.py.
class Checksum : public torch::CustomClassHolder {
 public:
  void update(int64_t address, int64_t size) {
    sum_.update(reinterpret_cast<const void*>(address), static_cast<size_t>(size));
  }
  int64_t digest() const { return static_cast<int64_t>(sum_.digest()); }

 private:
  Xxh64 sum_;
};

class HashIndex : public torch::CustomClassHolder {
 public:
  explicit HashIndex(int64_t capacity) : index_(static_cast<size_t>(std::max<int64_t>(capacity, 0))) {}

  int64_t size() const { return static_cast<int64_t>(index_.size()); }
  int64_t slots() const { return static_cast<int64_t>(index_.slots()); }
  int64_t bytes() const { return static_cast<int64_t>(index_.bytes()); }
  int64_t most_moved() const { return static_cast<int64_t>(index_.map().most_moved()); }

  at::Tensor find(const at::Tensor& given) const {
    const at::Tensor ids = checked_ids(given, "ids");
    at::Tensor slots = at::empty_like(ids);
    const int64_t* from = ids.const_data_ptr<int64_t>();
    int64_t* to = slots.mutable_data_ptr<int64_t>();
    at::parallel_for(0, ids.numel(), kGrain, [&](int64_t first, int64_t end) {
      index_.find(from + first, static_cast<size_t>(end - first), to + first);
    });
    return slots;
  }

  // Returns how many of the slots have a row.
  int64_t touch(const at::Tensor& given, int64_t step, double decay) {
    const at::Tensor slots = checked_ids(given, "slots");
    const std::lock_guard<std::mutex> lock(writing_);
    const int64_t parts = slots.numel() < kGrain ? 1 : at::get_num_threads();
    std::atomic<int64_t> touched{0};
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t end) {
      for (int64_t part = first; part < end; ++part) {
        touched += index_.touch(slots.const_data_ptr<int64_t>(), static_cast<size_t>(slots.numel()), step, decay,
                                static_cast<size_t>(part), static_cast<size_t>(parts));
      }
    });
    return touched;
  }

  void count_exactly() { index_.count_with(OccurrenceCounts::exact()); }
  void count_by_sketch(int64_t width, int64_t depth, int64_t seed) {
    index_.count_with(OccurrenceCounts::sketch(width, depth, static_cast<uint64_t>(seed)));
  }

  // OccurrenceCounts of ids without a row: ids and counts, or a sketch's counters without ids; both empty if none are
  // counted.
  std::tuple<at::Tensor, at::Tensor> sightings() {
    const std::lock_guard<std::mutex> lock(writing_);
    if (index_.occurrences() == nullptr) return {long_tensor({}), long_tensor({})};
    const OccurrenceCounts::Saved saved = index_.occurrences()->save();
    return {long_tensor(saved.ids), long_tensor(saved.counts)};
  }
  void set_sightings(const at::Tensor& ids, const at::Tensor& counts) {
    const std::lock_guard<std::mutex> lock(writing_);
    TORCH_CHECK(index_.occurrences() != nullptr, "this table's admission policy counts no sightings");
    index_.occurrences()->load({long_vector(checked_ids(ids, "ids")), long_vector(checked_ids(counts, "counts"))});
  }

  std::tuple<at::Tensor, at::Tensor> admit(const at::Tensor& ids, const at::Tensor& slots, int64_t step,
                                           int64_t sightings, double probability, int64_t seed) {
    const at::Tensor given = checked_ids(ids, "ids");
    const at::Tensor found = checked_ids(slots, "slots");
    if (all_have_slots(found)) return {long_tensor({}), long_tensor({})};
    const std::lock_guard<std::mutex> lock(writing_);
    const auto admitted =
        index_.admit(given.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>(),
                     static_cast<size_t>(given.numel()), step, {sightings, probability, static_cast<uint64_t>(seed)});
    return {long_tensor(admitted.first), long_tensor(admitted.second)};
  }

  at::Tensor insert(const at::Tensor& ids, const at::Tensor& shows, int64_t step) {
    const at::Tensor given = checked_ids(ids, "ids");
    const at::Tensor seen = checked_ids(shows, "shows");
    TORCH_CHECK(given.numel() == seen.numel(), "insert: ids and shows differ in length");
    at::Tensor slots = at::empty_like(given);
    const std::lock_guard<std::mutex> lock(writing_);
    index_.insert(given.const_data_ptr<int64_t>(), seen.const_data_ptr<int64_t>(), static_cast<size_t>(given.numel()),
                  step, slots.mutable_data_ptr<int64_t>());
    return slots;
  }

  // The given slots themselves where none is negative.
  at::Tensor resolve(const at::Tensor& ids, const at::Tensor& slots) const {
    const at::Tensor given = checked_ids(ids, "ids");
    const at::Tensor found = checked_ids(slots, "slots");
    if (all_have_slots(found)) return found;
    at::Tensor result = found.clone();
    int64_t* to = result.mutable_data_ptr<int64_t>();
    at::parallel_for(0, given.numel(), kGrain, [&](int64_t first, int64_t end) {
      index_.resolve(given.const_data_ptr<int64_t>() + first, to + first, static_cast<size_t>(end - first));
    });
    return result;
  }

  // The slots that the ids had, -1 for those that were absent.
  at::Tensor erase(const at::Tensor& ids) {
    const at::Tensor given = checked_ids(ids, "ids");
    at::Tensor slots = at::empty_like(given);
    const std::lock_guard<std::mutex> lock(writing_);
    index_.erase(given.const_data_ptr<int64_t>(), static_cast<size_t>(given.numel()),
                 slots.mutable_data_ptr<int64_t>());
    return slots;
  }

  at::Tensor victims(int64_t count, int64_t kind, double show_weight, double click_weight, double decay,
                     int64_t time_to_live, int64_t step, const at::Tensor& keep) {
    const at::Tensor kept = checked_ids(keep, "keep");
    const Ranking ranking{find_kind(kEvictions, "eviction policy", kind), show_weight, click_weight, decay,
                          time_to_live};
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor(index_.victims(static_cast<size_t>(std::max<int64_t>(count, 0)), ranking, step,
                                      kept.const_data_ptr<int64_t>(), static_cast<size_t>(kept.numel())));
  }

  at::Tensor coldest(int64_t count, int64_t steps_per_doubling, int64_t step, const at::Tensor& keep) {
    const at::Tensor kept = checked_ids(keep, "keep");
    TORCH_CHECK(steps_per_doubling >= 0, "coldest: steps_per_doubling must not be negative, got ", steps_per_doubling);
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor(index_.coldest(static_cast<size_t>(std::max<int64_t>(count, 0)), steps_per_doubling, step,
                                      kept.const_data_ptr<int64_t>(), static_cast<size_t>(kept.numel())));
  }

  // Slots whose rows went, in the order in which they went: the last is the first to be used again.
  at::Tensor free_slots() {
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor({index_.free_slots().begin(), index_.free_slots().end()});
  }

  at::Tensor used_slots() {
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor(index_.used_slots());
  }

  // ids, shows, clicks, last_step of rows.
  std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> infos(const at::Tensor& given) {
    const at::Tensor slots = checked_slots(given);
    at::Tensor ids = at::empty_like(slots);
    at::Tensor shows = at::empty({slots.numel()}, at::kFloat);
    at::Tensor clicks = at::empty({slots.numel()}, at::kFloat);
    at::Tensor last = at::empty_like(slots);
    auto* to_ids = ids.mutable_data_ptr<int64_t>();
    auto* to_shows = shows.mutable_data_ptr<float>();
    auto* to_clicks = clicks.mutable_data_ptr<float>();
    auto* to_last = last.mutable_data_ptr<int64_t>();
    const std::lock_guard<std::mutex> lock(writing_);
    for_each_slot(slots, [&](int64_t slot, int64_t i) {
      const RowStats& row = index_.stats(static_cast<size_t>(slot));
      to_ids[i] = index_.id(static_cast<size_t>(slot));
      to_shows[i] = row.shows;
      to_clicks[i] = row.clicks;
      to_last[i] = row.last_step;
    });
    return {ids, shows, clicks, last};
  }

  void set_infos(const at::Tensor& given, const at::Tensor& shows, const at::Tensor& clicks, const at::Tensor& last) {
    const at::Tensor slots = checked_slots(given);
    const Infos infos = checked_infos("set_infos", slots.numel(), shows, clicks, last);
    const auto* from_shows = infos.shows.const_data_ptr<float>();
    const auto* from_clicks = infos.clicks.const_data_ptr<float>();
    const auto* from_last = infos.last.const_data_ptr<int64_t>();
    const std::lock_guard<std::mutex> lock(writing_);
    for_each_slot(slots, [&](int64_t slot, int64_t i) {
      index_.set_stats(static_cast<size_t>(slot), {from_last[i], from_shows[i], from_clicks[i]});
    });
  }

  // insert, set_infos and mark_changed of ids that may be there.
  at::Tensor put(const at::Tensor& ids, const at::Tensor& shows, const at::Tensor& clicks, const at::Tensor& last) {
    const at::Tensor given = checked_ids(ids, "ids");
    const Infos infos = checked_infos("put", given.numel(), shows, clicks, last);
    at::Tensor slots = at::empty_like(given);
    const std::lock_guard<std::mutex> lock(writing_);
    index_.put(given.const_data_ptr<int64_t>(), infos.shows.const_data_ptr<float>(),
               infos.clicks.const_data_ptr<float>(), infos.last.const_data_ptr<int64_t>(),
               static_cast<size_t>(given.numel()), slots.mutable_data_ptr<int64_t>());
    return slots;
  }

  void add_clicks(const at::Tensor& given, const at::Tensor& clicks) {
    const at::Tensor slots = checked_slots(given);
    const at::Tensor added = clicks.to(at::kFloat).contiguous();
    TORCH_CHECK(added.sizes() == slots.sizes(), "add_clicks: slots and clicks differ in length");
    const std::lock_guard<std::mutex> lock(writing_);
    const float* more = added.const_data_ptr<float>();
    for_each_slot(slots, [&](int64_t slot, int64_t i) {
      if (slot > 0) index_.stats(static_cast<size_t>(slot)).clicks += more[i];
    });
  }

  void mark_changed(const at::Tensor& given) {
    const at::Tensor slots = checked_slots(given);
    const std::lock_guard<std::mutex> lock(writing_);
    for_each_slot(slots, [&](int64_t slot, int64_t) { index_.mark_changed(slot); });
  }

  // (slots,), the versions of the last changes; valid until a row is inserted.
  at::Tensor versions() const {
    return at::from_blob(index_.versions(), {slots()}, at::TensorOptions().dtype(at::kLong));
  }
  int64_t version() const { return index_.version(); }
  int64_t next_version() {
    const std::lock_guard<std::mutex> lock(writing_);
    return index_.next_version();
  }
  int64_t recorded_from() const { return index_.recorded_from(); }
  at::Tensor changed_slots(int64_t since) {
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor(index_.changed_slots(since));
  }
  at::Tensor erased_ids(int64_t since) {
    const std::lock_guard<std::mutex> lock(writing_);
    return long_tensor(index_.erased_ids(since));
  }
  void forget_erased(int64_t before) {
    const std::lock_guard<std::mutex> lock(writing_);
    index_.forget_erased(before);
  }

 private:
  static constexpr int64_t kGrain = 8 * 1024;

  struct Infos {
    at::Tensor shows, clicks, last;
  };

  static Infos checked_infos(const char* what, int64_t count, const at::Tensor& shows, const at::Tensor& clicks,
                             const at::Tensor& last) {
    TORCH_CHECK(shows.numel() == count && clicks.numel() == count && last.numel() == count, what,
                ": rows, shows, clicks and last_step differ in length");
    return {shows.to(at::kFloat).contiguous(), clicks.to(at::kFloat).contiguous(), checked_ids(last, "last_step")};
  }

  static bool all_have_slots(const at::Tensor& slots) {
    return row_kernels().valid(slots.const_data_ptr<int64_t>(), slots.numel(), INT64_MAX);
  }

  at::Tensor checked_slots(const at::Tensor& given) const {
    const at::Tensor slots = checked_ids(given, "slots");
    if (!row_kernels().valid(slots.const_data_ptr<int64_t>(), slots.numel(), this->slots())) {
      fail_slot("HashIndex", slots.const_data_ptr<int64_t>(), slots.numel(), this->slots());
    }
    return slots;
  }

  // Calls visit(slot, place of the slot); what is known of it is on its way from memory by then.
  template <typename Visit>
  void for_each_slot(const at::Tensor& slots, const Visit& visit) {
    constexpr int64_t kAhead = 32;
    const int64_t* data = slots.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < slots.numel(); ++i) {
      if (i + kAhead < slots.numel()) index_.prefetch(static_cast<size_t>(data[i + kAhead]));
      visit(data[i], i);
    }
  }

  mutable std::mutex writing_;
  Index index_;
};

at::Tensor initial_rows(const at::Tensor& given, int64_t width, int64_t kind, double a, double b, double low,
                        double high, int64_t seed) {
  const at::Tensor keys = checked_ids(given, "keys");
  const Initializer initializer{
      find_kind(kInitializers, "initializer", kind).distribution(), a, b, low, high, static_cast<uint64_t>(seed)};
  const at::Tensor out = at::empty({keys.numel(), width}, at::kFloat);
  const int64_t* key = keys.const_data_ptr<int64_t>();
  float* to = out.mutable_data_ptr<float>();
  at::parallel_for(0, keys.numel(), 64, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) initializer.fill(key[i], to + i * width, width);
  });
  return out;
}

// First values of the rows of new slots, and a state of zero.
void start_rows(const at::Tensor& weights, at::TensorList state, const at::Tensor& given, const at::Tensor& given_keys,
                int64_t kind, double a, double b, double low, double high, int64_t seed) {
  check_rows("start_rows", weights, given);
  const at::Tensor keys = checked_ids(given_keys, "keys");
  const at::Tensor slots = checked_ids(given, "slots");
  TORCH_CHECK(keys.numel() == slots.numel(), "start_rows: slots and keys differ in length");
  const int64_t* to = slots.const_data_ptr<int64_t>();
  const auto& kernels = row_kernels();
  if (!kernels.valid(to, slots.numel(), weights.size(0))) {
    fail_slot("start_rows", to, slots.numel(), weights.size(0));
  }
  const Initializer initializer{
      find_kind(kInitializers, "initializer", kind).distribution(), a, b, low, high, static_cast<uint64_t>(seed)};
  const int64_t width = weights.size(1);
  with_row_type(weights.scalar_type(), [&](auto* row) {
    using Row = std::remove_const_t<std::remove_pointer_t<decltype(row)>>;
    Row* table = row_data<Row>(weights);
    at::parallel_for(0, slots.numel(), 64, [&](int64_t first, int64_t end) {
      std::vector<float> wide(static_cast<size_t>(width));
      for (int64_t i = first; i < end; ++i) {
        initializer.fill(keys.const_data_ptr<int64_t>()[i], wide.data(), width);
        kernels.of(row).narrow(wide.data(), table + to[i] * width, width);
        for (const at::Tensor& tensor : state) {
          const int64_t columns = tensor.dim() == 1 ? 1 : tensor.size(1);
          std::fill_n(tensor.mutable_data_ptr<float>() + to[i] * columns, columns, 0.0f);
        }
      }
    });
  });
}

// The distinct ids in the order of their first occurrence, the place of each id among them, and how often each occurs.
std::tuple<at::Tensor, at::Tensor, at::Tensor> distinct(const at::Tensor& given) {
  const at::Tensor ids = checked_ids(given, "ids");
  at::Tensor inverse = at::empty_like(ids);
  const DistinctIds found = distinct_ids(ids.const_data_ptr<int64_t>(), static_cast<size_t>(ids.numel()),
                                         inverse.mutable_data_ptr<int64_t>());
  return {long_tensor(found.ids), inverse, long_tensor(found.counts)};
}

at::Tensor mix(const at::Tensor& given) {
  const at::Tensor values = given.contiguous();
  const at::Tensor out = at::empty_like(values);
  const int64_t* from = values.const_data_ptr<int64_t>();
  int64_t* to = out.mutable_data_ptr<int64_t>();
  at::parallel_for(0, values.numel(), 32 * 1024, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) to[i] = static_cast<int64_t>(mix64(static_cast<uint64_t>(from[i])));
  });
  return out;
}

}  // namespace

TORCH_LIBRARY(hybrid_torchrec, m) {
  m.class_<RowMemory>("RowMemory").def(torch::init<int64_t>()).def("tensor", &RowMemory::tensor);
  m.class_<Checksum>("Checksum").def(torch::init<>()).def("update", &Checksum::update).def("digest", &Checksum::digest);
  m.class_<HashIndex>("HashIndex")
      .def(torch::init<int64_t>())
      .def("size", &HashIndex::size)
      .def("slots", &HashIndex::slots)
      .def("bytes", &HashIndex::bytes)
      .def("most_moved", &HashIndex::most_moved)
      .def("find", &HashIndex::find)
      .def("touch", &HashIndex::touch)
      .def("count_exactly", &HashIndex::count_exactly)
      .def("count_by_sketch", &HashIndex::count_by_sketch)
      .def("sightings", &HashIndex::sightings)
      .def("set_sightings", &HashIndex::set_sightings)
      .def("admit", &HashIndex::admit)
      .def("insert", &HashIndex::insert)
      .def("put", &HashIndex::put)
      .def("resolve", &HashIndex::resolve)
      .def("erase", &HashIndex::erase)
      .def("victims", &HashIndex::victims)
      .def("coldest", &HashIndex::coldest)
      .def("used_slots", &HashIndex::used_slots)
      .def("free_slots", &HashIndex::free_slots)
      .def("infos", &HashIndex::infos)
      .def("set_infos", &HashIndex::set_infos)
      .def("add_clicks", &HashIndex::add_clicks)
      .def("mark_changed", &HashIndex::mark_changed)
      .def("versions", &HashIndex::versions)
      .def("version", &HashIndex::version)
      .def("next_version", &HashIndex::next_version)
      .def("recorded_from", &HashIndex::recorded_from)
      .def("changed_slots", &HashIndex::changed_slots)
      .def("erased_ids", &HashIndex::erased_ids)
      .def("forget_erased", &HashIndex::forget_erased);
  m.def("gather_rows(Tensor weights, Tensor slots) -> Tensor");
  m.def("pool_rows(Tensor weights, Tensor slots, Tensor offsets, bool mean, Tensor? samples) -> Tensor");
  m.def("sample_weight_gradients(Tensor weights, Tensor slots, Tensor offsets, Tensor gradients, bool mean) -> Tensor");
  m.def(
      "update_rows(Tensor(a!) weights, Tensor(b!)? momentum1, Tensor(c!)? momentum2, Tensor slots, Tensor gradients, "
      "Tensor? offsets, bool mean, Tensor? samples, int kind, float learning_rate, float eps, float beta1, "
      "float beta2, float weight_decay, int iteration, int? rounding, Tensor(d!)? versions, int version) -> ()");
  m.def("initial_rows(Tensor keys, int width, int kind, float a, float b, float low, float high, int seed) -> Tensor");
  m.def(
      "start_rows(Tensor(a!) weights, Tensor(b!)[] state, Tensor slots, Tensor keys, int kind, float a, float b, "
      "float low, float high, int seed) -> ()");
  m.def("take_rows(Tensor[] columns, Tensor slots) -> Tensor[]");
  m.def("put_rows(Tensor(a!)[] columns, Tensor slots, Tensor[] rows) -> ()");
  m.def("mix64(Tensor values) -> Tensor");
  m.def("distinct(Tensor ids) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(hybrid_torchrec, CPU, m) {
  m.impl("initial_rows", &initial_rows);
  m.impl("start_rows", &start_rows);
  m.impl("mix64", &mix);
  m.impl("distinct", &distinct);
}

}  // namespace hybrid_torchrec
