#include "group/pmix_client.h"

#include <fmt/format.h>

#if TALLY_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>

#include "base/clock.h"
#include "base/errors.h"
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

  static pmix_info_t flag(const char* key) {
    pmix_info_t info{};
    std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = true;
    return info;
  }

  // The value that the server has now, or null.
  Value get(const pmix_proc_t& of, const char* key) const {
    const pmix_info_t at_once = flag(PMIX_IMMEDIATE);
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
    const pmix_info_t collect = flag(PMIX_COLLECT_DATA);
    const pmix_proc_t all = everybody();
    // The callback owns the promise, since it may run after the deadline.
    auto promise = std::make_unique<std::promise<pmix_status_t>>();
    std::future<pmix_status_t> status = promise->get_future();
    const auto ended = [](pmix_status_t outcome, void* context) {
      std::unique_ptr<std::promise<pmix_status_t>>(
          static_cast<std::promise<pmix_status_t>*>(context))
          ->set_value(outcome);
    };
    const pmix_status_t begun = functions_.fence(&all, 1, &collect, 1, ended, promise.get());
    if (begun == PMIX_OPERATION_SUCCEEDED) return {};
    TALLY_TRY(check("PMIx_Fence_nb", begun));
    (void)promise.release();
    for (;;) {
      const Duration left = by.remaining(SteadyClock().now());
      if (status.wait_for(std::min<Duration>(left, std::chrono::seconds(1))) ==
          std::future_status::ready)
        return check("PMIx_Fence_nb", status.get());
      if (left <= Duration::zero())
        return make_error(ErrorCode::kTimeout,
                          "not all ranks came to the fence of the PMIx server");
    }
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

#include "base/errors.h"

namespace tally::group {

Result<PmixFacts> ask_pmix() {
  return invalid("meeting by PMIx needs a Tally that was built with the headers of libpmix-dev");
}

Result<std::string> pass_note_by_pmix(const std::string&, Deadline) { return ask_pmix().error(); }

}  // namespace tally::group

#endif
