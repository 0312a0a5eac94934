#include "group/pmix_client.h"

#include <fmt/format.h>

#if TALLY_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/errors.h"
#include "base/mutex.h"
#include "group/rendezvous_note.h"

namespace tally::group {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

struct FreeValue {
  void operator()(pmix_value_t* value) const {
    // NOLINTBEGIN(cppcoreguidelines-no-malloc): libpmix allocates with malloc.
    if (value->type == PMIX_STRING) std::free(value->data.string);
    std::free(value);
    // NOLINTEND(cppcoreguidelines-no-malloc)
  }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

// The outcome of a non-blocking fence; shared with its callback, which may run after the deadline.
struct Fence {
  Mutex mutex;
  std::condition_variable_any ended;
  bool done TALLY_GUARDED_BY(mutex) = false;
  pmix_status_t status TALLY_GUARDED_BY(mutex) = PMIX_SUCCESS;
};

// The functions in use, as libpmix exports them.
struct Functions {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence_nb) fence = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Functions> load() {
  // RTLD_GLOBAL, as an MPI would load it, because its plugins look for its symbols there. The
  // library has threads and is never unloaded.
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
  Functions functions;
  const bool whole = library != nullptr && find(library, "PMIx_Init", functions.init) &&
                     find(library, "PMIx_Finalize", functions.finalize) &&
                     find(library, "PMIx_Get", functions.get) &&
                     find(library, "PMIx_Put", functions.put) &&
                     find(library, "PMIx_Commit", functions.commit) &&
                     find(library, "PMIx_Fence_nb", functions.fence) &&
                     find(library, "PMIx_Error_string", functions.error_string);
  if (whole) return functions;
  return invalid("meeting by PMIx needs {} (package libpmix2): {}", kLibrary,
                 library == nullptr ? dlerror() : "it is not as expected");
}

// This process's registration with its PMIx server.
class PmixRegistration {
 public:
  static Result<std::unique_ptr<PmixRegistration>> make() {
    TALLY_TRY(const Functions functions, load());
    pmix_proc_t self{};
    const pmix_status_t status = functions.init(&self, nullptr, 0);
    if (status != PMIX_SUCCESS)
      return make_error(ErrorCode::kSystem, "no PMIx server: {}", functions.error_string(status));
    return std::unique_ptr<PmixRegistration>(new PmixRegistration(functions, self));
  }
  ~PmixRegistration() {
    // A fork of the process must not end the registration.
    if (getpid() == owner_) functions_.finalize(nullptr, 0);
  }
  PmixRegistration(const PmixRegistration&) = delete;
  PmixRegistration& operator=(const PmixRegistration&) = delete;

  Result<PmixFacts> facts() const {
    PmixFacts facts{.rank = static_cast<Rank>(self_.rank)};
    const auto size = number(everybody(), PMIX_JOB_SIZE);
    if (!size) return make_error(ErrorCode::kSystem, "the PMIx server knows no job size");
    facts.size = *size;
    facts.local_rank = number(self_, PMIX_LOCAL_RANK);
    facts.local_size = number(everybody(), PMIX_LOCAL_SIZE);
    return facts;
  }

  Result<std::string> pass(const std::string& note, Deadline by) {
    const std::string key = fmt::format("tally-meet-{}", passes_++);
    if (self_.rank == 0) {
      std::string text = note;
      pmix_value_t value{};
      value.type = PMIX_STRING;
      value.data.string = text.data();
      TALLY_TRY(check("PMIx_Put", functions_.put(PMIX_GLOBAL, key.c_str(), &value)));
    }
    TALLY_TRY(check("PMIx_Commit", functions_.commit()));
    TALLY_TRY(fence(by));
    pmix_proc_t first = self_;
    first.rank = 0;
    const Value value = get(first, key.c_str());
    if (!value || value->type != PMIX_STRING || value->data.string == nullptr)
      return corrupt("the PMIx server lost rank 0's note");
    return std::string(value->data.string, strnlen(value->data.string, kMaxNoteBytes + 1));
  }

 private:
  PmixRegistration(const Functions& functions, const pmix_proc_t& self)
      : functions_(functions), self_(self) {}

  pmix_proc_t everybody() const {
    pmix_proc_t all = self_;
    all.rank = PMIX_RANK_WILDCARD;
    return all;
  }

  // The value that the server has now, or null.
  Value get(const pmix_proc_t& of, const char* key) const {
    pmix_info_t at_once{};
    std::strncpy(at_once.key, PMIX_IMMEDIATE, PMIX_MAX_KEYLEN);
    at_once.value.type = PMIX_BOOL;
    at_once.value.data.flag = true;
    pmix_value_t* value = nullptr;
    if (functions_.get(&of, key, &at_once, 1, &value) != PMIX_SUCCESS) return nullptr;
    return Value(value);
  }

  std::optional<int> number(const pmix_proc_t& of, const char* key) const {
    const Value value = get(of, key);
    if (value && value->type == PMIX_UINT32) return static_cast<int>(value->data.uint32);
    if (value && value->type == PMIX_UINT16) return static_cast<int>(value->data.uint16);
    return std::nullopt;
  }

  Result<void> check(const char* what, pmix_status_t status) const {
    if (status == PMIX_SUCCESS) return {};
    return make_error(ErrorCode::kSystem, "{}: {}", what, functions_.error_string(status));
  }

  // Waits for all ranks and fetches the values that they put.
  Result<void> fence(Deadline by) const {
    pmix_info_t collect{};
    std::strncpy(collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    collect.value.type = PMIX_BOOL;
    collect.value.data.flag = true;
    const pmix_proc_t all = everybody();
    const auto state = std::make_shared<Fence>();
    auto for_callback = std::make_unique<std::shared_ptr<Fence>>(state);
    const auto ended = [](pmix_status_t status, void* context) {
      const std::unique_ptr<std::shared_ptr<Fence>> fence(
          static_cast<std::shared_ptr<Fence>*>(context));
      MutexLock lock((*fence)->mutex);
      (*fence)->done = true;
      (*fence)->status = status;
      (*fence)->ended.notify_all();
    };
    const pmix_status_t begun = functions_.fence(&all, 1, &collect, 1, ended, for_callback.get());
    if (begun == PMIX_OPERATION_SUCCEEDED) return {};
    TALLY_TRY(check("PMIx_Fence_nb", begun));
    (void)for_callback.release();  // the callback owns it now
    return wait(*state, by);
  }

  Result<void> wait(Fence& state, Deadline by) const {
    MutexLock lock(state.mutex);
    while (!state.done) {
      const Duration left = by.remaining(SteadyClock().now());
      if (left <= Duration::zero())
        return make_error(ErrorCode::kTimeout,
                          "not all ranks came to the fence of the PMIx server");
      state.ended.wait_for(state.mutex, std::min<Duration>(left, std::chrono::seconds(1)));
    }
    return check("PMIx_Fence_nb", state.status);
  }

  const Functions functions_;
  const pmix_proc_t self_;
  const pid_t owner_ = getpid();
  int passes_ = 0;
};

// The registration of this process, ended when it exits.
Result<PmixRegistration*> registration() {
  static std::unique_ptr<PmixRegistration> ours;
  if (!ours) {
    TALLY_TRY(ours, PmixRegistration::make());
  }
  return ours.get();
}

}  // namespace

Result<PmixFacts> ask_pmix() {
  TALLY_TRY(const PmixRegistration* const ours, registration());
  return ours->facts();
}

Result<std::string> pass_note_by_pmix(const std::string& note, Deadline by) {
  TALLY_TRY(PmixRegistration* const ours, registration());
  return ours->pass(note, by);
}

}  // namespace tally::group

#else

namespace tally::group {
namespace {

Error missing() {
  return invalid("meeting by PMIx needs a Tally that was built with the headers of libpmix-dev");
}

}  // namespace

Result<PmixFacts> ask_pmix() { return missing(); }

Result<std::string> pass_note_by_pmix(const std::string&, Deadline) { return missing(); }

}  // namespace tally::group

#endif
