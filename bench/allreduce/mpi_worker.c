// One rank of an MPI contender. Reads commands from its own named pipe, so that it sleeps in the
// kernel while others are measured, and answers on the pipe that all ranks share:
//
//   check BYTES                 all-reduce known values and compare every element with their sum
//   run BYTES BATCHES CALLS     time BATCHES batches of CALLS all-reduces each, in place
//
//   ready RANK VERSION | done RANK BYTES_SENT MICROSECONDS-PER-CALL... | failed RANK WHY
//
// Usage: mpi_worker FOLDER. The values and the loop are those of tally_worker.cc and
// gloo_worker.py.
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { kMaxBuffers = 64, kWarmUpCalls = 2, kMaxAnswer = 4096 };

static int rank, ranks, out_fd;

static struct {
  size_t count;
  float* data;
} buffers[kMaxBuffers];

// Returns the buffer for `count` values, the same at every call with that count.
static float* buffer_of(size_t count) {
  int i = 0;
  while (i < kMaxBuffers - 1 && buffers[i].count != 0 && buffers[i].count != count) ++i;
  if (buffers[i].count != count) {
    void* data = NULL;
    if (posix_memalign(&data, 4096, count * sizeof(float)) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(data, 0, count * sizeof(float));
    buffers[i].count = count;
    buffers[i].data = data;
  }
  return buffers[i].data;
}

// One line in one write(): lines of different ranks do not mix.
static void answer(const char* format, ...) {
  char line[kMaxAnswer];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(out_fd, line, (size_t)length) != length) exit(1);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void allreduce(float* data, size_t count) {
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Whole numbers below 2^24, so that their sum is exact in any order.
static void check(size_t count) {
  float* data = buffer_of(count);
  for (size_t i = 0; i < count; ++i) {
    data[i] = (float)(i % 1009) + (float)(rank + 1) * (float)(i % 31 + 1);
  }
  allreduce(data, count);
  const float rank_sum = (float)ranks * (float)(ranks + 1) / 2;
  for (size_t i = 0; i < count; ++i) {
    const float want = (float)ranks * (float)(i % 1009) + rank_sum * (float)(i % 31 + 1);
    if (data[i] != want) {
      answer("failed %d element %zu is %g, not %g\n", rank, i, data[i], want);
      return;
    }
  }
  answer("done %d -\n", rank);
}

static void fill(float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = 1e-30F * (float)(1 + i % 7);
}

// Every call multiplies the values by the number of ranks; they are refilled, outside the timed
// part, before they leave the range of a float.
static int calls_before_overflow(void) {
  int bits = 1;
  while ((1 << bits) < ranks) ++bits;
  return 200 / bits;
}

static void run(size_t count, int batches, int calls) {
  char line[kMaxAnswer];
  int length = snprintf(line, sizeof line, "done %d -", rank);
  float* data = buffer_of(count);
  const int limit = calls_before_overflow();
  int used = limit;
  for (int batch = 0; batch < batches; ++batch) {
    if (used + calls > limit) {
      fill(data, count);
      for (int i = 0; i < kWarmUpCalls; ++i) allreduce(data, count);
      used = kWarmUpCalls;
    }
    const double start = now_us();
    for (int i = 0; i < calls; ++i) allreduce(data, count);
    const double elapsed = now_us() - start;
    used += calls;
    if (rank == 0 && length < kMaxAnswer - 32) {
      length += snprintf(line + length, 32, " %.3f", elapsed / calls);
    }
  }
  answer("%s\n", line);
}

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char path[kMaxAnswer];
  snprintf(path, sizeof path, "%s/out", argv[1]);
  out_fd = open(path, O_WRONLY | O_CLOEXEC);
  snprintf(path, sizeof path, "%s/in.%d", argv[1], rank);
  FILE* commands = fopen(path, "r");
  if (out_fd < 0 || commands == NULL) MPI_Abort(MPI_COMM_WORLD, 1);

  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int version_length = 0;
  MPI_Get_library_version(version, &version_length);
  version[strcspn(version, ",\n")] = '\0';
  for (char* c = version; *c != '\0'; ++c) *c = *c == '\t' ? ' ' : *c;
  answer("ready %d %s\n", rank, version);

  char line[kMaxAnswer];
  while (fgets(line, sizeof line, commands) != NULL) {
    size_t bytes = 0;
    int batches = 0, calls = 0;
    if (sscanf(line, "check %zu", &bytes) == 1) {
      check(bytes / sizeof(float));
    } else if (sscanf(line, "run %zu %d %d", &bytes, &batches, &calls) == 3) {
      run(bytes / sizeof(float), batches, calls);
    }
  }
  MPI_Finalize();
  return 0;
}
