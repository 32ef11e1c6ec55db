/* Moves the wall clock of the processes that preload this, and lets their monotonic clock run
 * faster or slower, as the file that SHIM_CLOCK names says: three 64-bit numbers, the nanoseconds
 * that are added to the wall clock, the parts of a million that are added to the rate of the
 * monotonic clock, and the monotonic time from which on these are added. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shared;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SHIM_CLOCK");
  real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  if (path != NULL) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      void *mapped = mmap(NULL, 24, PROT_READ, MAP_SHARED, file, 0);
      shared = mapped == MAP_FAILED ? NULL : mapped;
      close(file);
    }
  }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (real_gettime == NULL)
    begin();
  int result = real_gettime(clock, time);
  if (result != 0 || shared == NULL)
    return result;
  int64_t ns = time->tv_sec * 1000000000LL + time->tv_nsec;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
    ns += shared[0];
  else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
    ns += (ns - shared[2]) / 1000000 * shared[1];
  else
    return result;
  time->tv_sec = ns / 1000000000LL;
  time->tv_nsec = ns % 1000000000LL;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  int result = clock_gettime(CLOCK_REALTIME, &now);
  (void)zone;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return result;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL)
    *out = now.tv_sec;
  return now.tv_sec;
}
