/* The wall clock as a file says: so many seconds before or after what it is. Loaded before the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    char text[32] = {0};
    const char *name = getenv("SABIR_TEST_CLOCK");
    int file, result;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    result = real(id, now);
    if (result == 0 && id == CLOCK_REALTIME && name && (file = open(name, O_RDONLY | O_CLOEXEC)) >= 0) {
        if (read(file, text, sizeof text - 1) > 0)
            now->tv_sec += strtol(text, NULL, 10);
        close(file);
    }
    return result;
}
