/* NVIDIA's management library as far as this project calls it, with the answers of a text file.
 * A file that has changed is read anew at the next call. It lies beside the library, with ".txt"
 * after the library's name, or where the variable MUSTER_FAKE_NVML says. See mod.rs beside this
 * file for its lines. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TEXT = 256,
    SLOTS = 64, /* instances of a GPU, and one */
    NO_SLOT = -1,
    VALUE_UNSIGNED_LONG_LONG = 3,
    ALL_LINKS = -1,
    P2P_NVLINK = 2,
    P2P_OK = 0,
    P2P_NOT_SUPPORTED = 5,
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct memory {
    unsigned long long total, free, used;
};

struct utilization {
    unsigned gpu, memory;
};

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct field {
    unsigned id, scope;
    long long time, latency;
    unsigned type;
    int error;
    unsigned long long value;
};

struct gpm_support {
    unsigned version, is_supported;
};

struct gpm_metric {
    unsigned id;
    int error;
    double value;
    const char *short_name, *long_name, *unit;
};

struct gpm_metrics {
    unsigned version, count;
    const void *first, *second;
    struct gpm_metric metrics[210];
};

struct pci {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

/* A handle is a number above 0: of the GPU, and of the instance on it if it is one. */
static void *handle(int gpu, int slot) { return (void *)(intptr_t)(gpu * SLOTS + slot + 2); }
static int gpu_of(const void *device) { return (int)((intptr_t)device - 1) / SLOTS; }
static int slot_of(const void *device) { return (int)((intptr_t)device - 1) % SLOTS - 1; }

static const char *file_name(void) {
    static _Thread_local char name[4096];
    const char *given = getenv("MUSTER_FAKE_NVML");
    Dl_info info;
    if (given)
        return given;
    if (!dladdr((void *)file_name, &info))
        return "";
    snprintf(name, sizeof name, "%s.txt", info.dli_fname);
    return name;
}

/* A line "key = value". `place` is the line's number. */
struct line {
    const char *key, *value;
    size_t place;
};

/* The file as it was read last, with its lines in the order of their keys. */
static struct {
    pthread_mutex_t mutex;
    struct stat file;
    int is_old;
    char *text;
    struct line *lines;
    size_t count;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int by_key(const void *one, const void *other) {
    const struct line *a = one, *b = other;
    int order = strcmp(a->key, b->key);
    return order ? order : (a->place > b->place) - (a->place < b->place);
}

/* Two writes within one tick of the kernel's clock may leave the same times, so a file counts as
 * unchanged only if it was a second old when it was read. */
static int is_kept(const struct stat *now) {
    const struct stat *then = &kept.file;
    return kept.is_old && now->st_ino == then->st_ino && now->st_size == then->st_size &&
           now->st_mtim.tv_sec == then->st_mtim.tv_sec && now->st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

static void split(char *text) {
    size_t room = 0;
    kept.count = 0;
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        char *mid = strstr(line, " = ");
        if (!mid || line[0] == '#')
            continue;
        *mid = 0;
        if (kept.count == room)
            kept.lines = realloc(kept.lines, (room = room * 2 + 64) * sizeof *kept.lines);
        kept.lines[kept.count] = (struct line){line, mid + 3, kept.count};
        kept.count++;
    }
    qsort(kept.lines, kept.count, sizeof *kept.lines, by_key);
}

/* Reads the file if it is another one than before. Returns whether there is one. */
static int refresh(void) {
    struct stat now;
    FILE *file;
    size_t length;
    if (stat(file_name(), &now) == 0 && is_kept(&now))
        return 1;
    kept.is_old = 0;
    if (!(file = fopen(file_name(), "r")))
        return 0;
    fstat(fileno(file), &kept.file);
    kept.is_old = kept.file.st_mtim.tv_sec + 1 < time(NULL);
    free(kept.text);
    free(kept.lines);
    kept.lines = NULL;
    kept.text = malloc((size_t)kept.file.st_size + 1);
    length = fread(kept.text, 1, (size_t)kept.file.st_size, file);
    kept.text[length] = 0;
    fclose(file);
    split(kept.text);
    return 1;
}

/* Copies what stands after "key = " on the key's last line. Returns whether there is one. */
static int find(const char *key, char *value) {
    struct line after = {key, NULL, SIZE_MAX};
    size_t low = 0, high;
    int is_found = 0;
    pthread_mutex_lock(&kept.mutex);
    for (high = refresh() ? kept.count : 0; low < high;) {
        size_t mid = (low + high) / 2;
        if (by_key(&kept.lines[mid], &after) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && strcmp(kept.lines[low - 1].key, key) == 0) {
        snprintf(value, TEXT, "%s", kept.lines[low - 1].value);
        is_found = 1;
    }
    pthread_mutex_unlock(&kept.mutex);
    return is_found;
}

static long number(const char *key, long other) {
    char value[TEXT];
    return find(key, value) ? strtol(value, NULL, 0) : other;
}

/* The key of a thing of a GPU, or of its instance. */
static void key_of(const void *device, const char *name, char *key) {
    if (slot_of(device) == NO_SLOT)
        snprintf(key, TEXT, "gpu.%d.%s", gpu_of(device), name);
    else
        snprintf(key, TEXT, "gpu.%d.mig.%d.%s", gpu_of(device), slot_of(device), name);
}

static int find_of(const void *device, const char *name, char *value) {
    char key[TEXT];
    key_of(device, name, key);
    return find(key, value);
}

static long number_of(const void *device, const char *name, long other) {
    char key[TEXT];
    key_of(device, name, key);
    return number(key, other);
}

/* Notes a call in the file that the key "calls" names. */
static void note(const char *call, int gpu) {
    char name[TEXT];
    FILE *file;
    if (!find("calls", name) || !(file = fopen(name, "a")))
        return;
    fprintf(file, "%s %d\n", call, gpu);
    fclose(file);
}

/* Waits as long as the file says of a call, and returns the error that it says. */
static int begin(const char *call, int gpu) {
    char key[TEXT], one[TEXT];
    long wait_ms, error;
    note(call, gpu);
    snprintf(key, TEXT, "held.%s", call);
    snprintf(one, TEXT, "held.%s.%d", call, gpu);
    while (number(one, number(key, 0)) != 0) {
        struct timespec wait = {0, 10000000};
        nanosleep(&wait, NULL);
    }
    snprintf(key, TEXT, "hang.%s", call);
    snprintf(one, TEXT, "hang.%s.%d", call, gpu);
    wait_ms = number(one, number(key, 0));
    if (wait_ms > 0) {
        struct timespec wait = {wait_ms / 1000, wait_ms % 1000 * 1000000};
        nanosleep(&wait, NULL);
    }
    snprintf(key, TEXT, "error.%s", call);
    snprintf(one, TEXT, "error.%s.%d", call, gpu);
    error = number(one, number(key, SUCCESS));
    return (int)error;
}

/* Starts a call on a device: leaves it if the file says so. */
#define BEGIN(device)                                                                              \
    do {                                                                                           \
        int error = begin(__func__, gpu_of(device));                                               \
        if (error != SUCCESS)                                                                      \
            return error;                                                                          \
    } while (0)

static int copy(const char *value, char *text, unsigned length) {
    if (strlen(value) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(text, value);
    return SUCCESS;
}

static int text_of(const void *device, const char *name, char *text, unsigned length) {
    char value[TEXT];
    return find_of(device, name, value) ? copy(value, text, length) : NOT_SUPPORTED;
}

static int parse_pci(const char *value, struct pci *place) {
    unsigned function;
    memset(place, 0, sizeof *place);
    if (sscanf(value, "%x:%x:%x.%x %x", &place->domain, &place->bus, &place->device, &function,
               &place->device_id) < 4)
        return NOT_SUPPORTED;
    snprintf(place->id, sizeof place->id, "%08X:%02X:%02X.0", place->domain & 0xffffffff,
             place->bus & 0xff, place->device & 0xff);
    return SUCCESS;
}

int nvmlInit_v2(void) {
    char value[TEXT];
    int error = begin(__func__, -1);
    if (error != SUCCESS)
        return error;
    return find("devices", value) ? SUCCESS : DRIVER_NOT_LOADED;
}

int nvmlShutdown(void) { return begin(__func__, -1); }

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    char value[TEXT];
    return find("driver", value) ? copy(value, text, length) : NOT_SUPPORTED;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int error = begin(__func__, -1);
    *count = (unsigned)number("devices", 0);
    return error;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    int error = begin(__func__, (int)index);
    if (error != SUCCESS)
        return error;
    if ((long)index >= number("devices", 0))
        return INVALID_ARGUMENT;
    *device = handle((int)index, NO_SLOT);
    return SUCCESS;
}

int nvmlDeviceGetUUID(const void *device, char *text, unsigned length) {
    BEGIN(device);
    return text_of(device, "uuid", text, length);
}

int nvmlDeviceGetName(const void *device, char *text, unsigned length) {
    BEGIN(device);
    return text_of(device, "name", text, length);
}

int nvmlDeviceGetMinorNumber(const void *device, unsigned *minor) {
    long found = number_of(device, "minor", -1);
    BEGIN(device);
    *minor = (unsigned)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(const void *device, struct pci *place) {
    char value[TEXT];
    BEGIN(device);
    return find_of(device, "pci", value) ? parse_pci(value, place) : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryInfo_v2(const void *device, struct memory_v2 *memory) {
    long found = number_of(device, "memory", -1);
    BEGIN(device);
    memory->total = (unsigned long long)found << 20;
    memory->used = (unsigned long long)number_of(device, "memory.used", 0) << 20;
    memory->reserved = (unsigned long long)number_of(device, "memory.reserved", 0) << 20;
    memory->free = memory->total - memory->used - memory->reserved;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMemoryInfo(const void *device, struct memory *memory) {
    long found = number_of(device, "memory", -1);
    BEGIN(device);
    memory->total = (unsigned long long)found << 20;
    memory->used = (unsigned long long)(number_of(device, "memory.used", 0) +
                                        number_of(device, "memory.reserved", 0))
                   << 20;
    memory->free = memory->total - memory->used;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

/* A call that gives one number. */
#define NUMBER(call, type, name)                                                                   \
    int call(const void *device, type *value) {                                                    \
        long found = number_of(device, name, -1);                                                  \
        BEGIN(device);                                                                             \
        *value = (type)found;                                                                      \
        return found < 0 ? NOT_SUPPORTED : SUCCESS;                                                \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power.limit")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
NUMBER(nvmlDeviceGetPerformanceState, unsigned, "pstate")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "replay")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie.gen")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie.gen.max")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie.width.max")

/* A call that gives one number of several, which a number names. */
#define CHOICE(call, name0, name1)                                                                 \
    int call(const void *device, unsigned what, unsigned *value) {                                 \
        long found = number_of(device, what == 0 ? name0 : name1, -1);                             \
        BEGIN(device);                                                                             \
        *value = (unsigned)found;                                                                  \
        return found < 0 ? NOT_SUPPORTED : SUCCESS;                                                \
    }

CHOICE(nvmlDeviceGetTemperature, "temperature", "")
CHOICE(nvmlDeviceGetTemperatureThreshold, "temperature.shutdown", "temperature.slowdown")

int nvmlDeviceGetClockInfo(const void *device, unsigned what, unsigned *mhz) {
    static const char *const names[] = {"clock.graphics", "clock.sm", "clock.memory"};
    long found = number_of(device, what < 3 ? names[what] : "", -1);
    BEGIN(device);
    *mhz = (unsigned)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(const void *device, struct utilization *rates) {
    char value[TEXT];
    BEGIN(device);
    if (!find_of(device, "utilization", value))
        return NOT_SUPPORTED;
    return sscanf(value, "%u %u", &rates->gpu, &rates->memory) == 2 ? SUCCESS : NOT_SUPPORTED;
}

static int coder(const void *device, const char *name, unsigned *percent, unsigned *period_us) {
    long found = number_of(device, name, -1);
    *percent = (unsigned)found;
    *period_us = 1000000;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(const void *device, unsigned *percent, unsigned *period_us) {
    BEGIN(device);
    return coder(device, "encoder", percent, period_us);
}

int nvmlDeviceGetDecoderUtilization(const void *device, unsigned *percent, unsigned *period_us) {
    BEGIN(device);
    return coder(device, "decoder", percent, period_us);
}

int nvmlDeviceGetTotalEccErrors(const void *device, unsigned error, unsigned counter,
                                unsigned long long *count) {
    static const char *const names[] = {"ecc.corrected", "ecc.corrected.ever", "ecc.uncorrected",
                                        "ecc.uncorrected.ever"};
    long found = number_of(device, error < 2 && counter < 2 ? names[error * 2 + counter] : "", -1);
    BEGIN(device);
    *count = (unsigned long long)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetRemappedRows(const void *device, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *is_pending, unsigned *has_failed) {
    char value[TEXT];
    BEGIN(device);
    if (!find_of(device, "remapped", value))
        return NOT_SUPPORTED;
    return sscanf(value, "%u %u %u %u", correctable, uncorrectable, is_pending, has_failed) == 4
               ? SUCCESS
               : NOT_SUPPORTED;
}

/* Fields of which each link has one, with what names the sum of all. */
static int is_of_links(unsigned id) { return id >= 138 && id <= 141; }

int nvmlDeviceGetFieldValues(const void *device, int count, struct field *fields) {
    char name[TEXT];
    BEGIN(device);
    for (int at = 0; at < count; at++) {
        struct field *field = &fields[at];
        snprintf(name, TEXT, "field.%u", field->id);
        long found = number_of(device, name, -1);
        if (is_of_links(field->id) && (int)field->scope != ALL_LINKS)
            found = -1;
        field->type = VALUE_UNSIGNED_LONG_LONG;
        field->value = (unsigned long long)found;
        field->error = found < 0 ? NOT_SUPPORTED : SUCCESS;
    }
    return SUCCESS;
}

/* Processes from a line "PID:MIB PID:MIB", where "-" for the memory is that it is not known. */
static int processes(const void *device, const char *name, unsigned *count, struct process *all) {
    char value[TEXT], *rest = value;
    unsigned room = *count;
    *count = 0;
    if (!find_of(device, name, value))
        return NOT_SUPPORTED;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *memory = strchr(word, ':');
        if (!memory)
            continue;
        if (*count < room && all) {
            all[*count].pid = (unsigned)strtoul(word, NULL, 10);
            all[*count].memory =
                memory[1] == '-' ? ~0ULL : strtoull(memory + 1, NULL, 10) << 20;
            all[*count].gpu_instance = all[*count].compute_instance = ~0U;
        }
        ++*count;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const void *device, unsigned *count,
                                            struct process *all) {
    BEGIN(device);
    return processes(device, "processes", count, all);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(const void *device, unsigned *count,
                                             struct process *all) {
    BEGIN(device);
    return processes(device, "processes.graphics", count, all);
}

int nvmlGpmQueryDeviceSupport(const void *device, struct gpm_support *support) {
    BEGIN(device);
    support->is_supported = (unsigned)number_of(device, "gpm", 0);
    return SUCCESS;
}

/* A sample of counters is the device that it is of. */
int nvmlGpmSampleAlloc(void **sample) {
    const void **made = malloc(sizeof *made);
    if (made)
        *made = NULL;
    *sample = (void *)made;
    return SUCCESS;
}

int nvmlGpmSampleFree(void *sample) {
    free(sample);
    return SUCCESS;
}

int nvmlGpmSampleGet(const void *device, const void **sample) {
    BEGIN(device);
    *sample = device;
    return SUCCESS;
}

int nvmlGpmMetricsGet(struct gpm_metrics *asked) {
    const void *first = *(const void *const *)asked->first;
    const void *second = *(const void *const *)asked->second;
    char name[TEXT], value[TEXT];
    BEGIN(second);
    if (!first || first != second)
        return INVALID_ARGUMENT;
    for (unsigned at = 0; at < asked->count; at++) {
        struct gpm_metric *metric = &asked->metrics[at];
        snprintf(name, TEXT, "gpm.%u", metric->id);
        int is_found = find_of(second, name, value);
        metric->error = is_found ? SUCCESS : NOT_SUPPORTED;
        metric->value = is_found ? strtod(value, NULL) : 0;
    }
    return SUCCESS;
}

int nvmlDeviceGetMigMode(const void *device, unsigned *now, unsigned *pending) {
    long found = number_of(device, "mig", -1);
    BEGIN(device);
    *now = *pending = (unsigned)found;
    return found < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(const void *device, unsigned *count) {
    BEGIN(device);
    *count = 7;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const void *device, unsigned slot, void **instance) {
    char value[TEXT];
    BEGIN(device);
    *instance = handle(gpu_of(device), (int)slot);
    return find_of(*instance, "uuid", value) ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(const void *device, unsigned *id) {
    long found = number_of(device, "gi", -1);
    BEGIN(device);
    *id = (unsigned)found;
    return found < 0 ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(const void *device, unsigned *id) {
    long found = number_of(device, "ci", -1);
    BEGIN(device);
    *id = (unsigned)found;
    return found < 0 ? NOT_FOUND : SUCCESS;
}

int nvmlDeviceGetNvLinkState(const void *device, unsigned link, unsigned *is_active) {
    char name[TEXT], value[TEXT];
    BEGIN(device);
    if ((long)link >= number_of(device, "links", 0))
        return INVALID_ARGUMENT;
    snprintf(name, TEXT, "link.%u", link);
    *is_active = (unsigned)find_of(device, name, value);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const void *device, unsigned link, struct pci *place) {
    char name[TEXT], value[TEXT];
    BEGIN(device);
    snprintf(name, TEXT, "link.%u", link);
    return find_of(device, name, value) ? parse_pci(value, place) : INVALID_ARGUMENT;
}

int nvmlDeviceGetP2PStatus(const void *device, const void *other, int what, int *status) {
    char value[TEXT], *rest = value;
    BEGIN(device);
    if (what != P2P_NVLINK)
        return NOT_SUPPORTED;
    *status = P2P_NOT_SUPPORTED;
    if (!find_of(device, "nvlink", value))
        return SUCCESS;
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word && strtol(word, NULL, 10) == gpu_of(other))
            *status = P2P_OK;
    return SUCCESS;
}
