/* An NVTX injection library for tests: writes what it is told into the file RASKIO_NVTX_RECORD, a line each, fields between tabs:
 *
 *     domain NAME | category DOMAIN NUMBER NAME
 *     start ID DOMAIN CATEGORY PAYLOAD MESSAGE | end ID DOMAIN
 *     schema ID NAME ENTRY[UNIT]… | counters ID SCHEMA NAME | sample ID VALUE… | unavailable ID REASON
 *
 * It is strict: what Nsight Systems might not understand (a wrong version, size or handle) becomes a line `fault TEXT`. */
#define _GNU_SOURCE
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#define NVTX_INIT_GUARD
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of nvtxDetail/nvtxTypes.h, which cannot be included alone. */
typedef const void *(*get_export_table)(uint32_t id);
typedef struct {
  size_t struct_size;
  int (*module_table)(uint32_t module, void (****out_table)(void), unsigned *out_size);
} callbacks_table;
enum { TABLE_CALLBACKS = 1, MODULE_CORE2 = 5, CORE2_START = 2, CORE2_END = 3, CORE2_NAME_CATEGORY = 8, CORE2_DOMAIN = 12 };

#define MOST 64
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *out;
static char *domains[MOST];
static unsigned domain_count;
static uint64_t next_range = 1000;
static size_t schema_entries[MOST];
static unsigned schema_count;
static unsigned counter_schema[MOST];
static unsigned counter_count;

static void line(const char *format, ...) {
  va_list values;
  va_start(values, format);
  if (!out) {
    const char *path = getenv("RASKIO_NVTX_RECORD");
    out = path ? fopen(path, "a") : NULL;
  }
  if (out) {
    vfprintf(out, format, values);
    fputc('\n', out);
    fflush(out);
  }
  va_end(values);
}

/* A domain's handle is its number from 1. */
static const char *domain_name(nvtxDomainHandle_t domain) {
  uintptr_t number = (uintptr_t)domain;
  if (number == 0 || number > domain_count) {
    line("fault\tno domain %zu", (size_t)number);
    return "?";
  }
  return domains[number - 1];
}

static nvtxDomainHandle_t create_domain(const char *name) {
  pthread_mutex_lock(&lock);
  nvtxDomainHandle_t handle = NULL;
  if (domain_count < MOST) {
    domains[domain_count++] = strdup(name);
    handle = (nvtxDomainHandle_t)(uintptr_t)domain_count;
    line("domain\t%s", name);
  }
  pthread_mutex_unlock(&lock);
  return handle;
}

static void name_category(nvtxDomainHandle_t domain, uint32_t category, const char *name) {
  pthread_mutex_lock(&lock);
  line("category\t%s\t%u\t%s", domain_name(domain), category, name);
  pthread_mutex_unlock(&lock);
}

static nvtxRangeId_t start_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  pthread_mutex_lock(&lock);
  uint64_t id = next_range++;
  if (event->version != NVTX_VERSION || event->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE ||
      event->messageType != NVTX_MESSAGE_TYPE_ASCII || event->payloadType != NVTX_PAYLOAD_TYPE_UNSIGNED_INT64)
    line("fault\ta range with attributes of another kind");
  else
    line("start\t%llu\t%s\t%u\t%llu\t%s", (unsigned long long)id, domain_name(domain), event->category,
         (unsigned long long)event->payload.ullValue, event->message.ascii);
  pthread_mutex_unlock(&lock);
  return id;
}

static void end_range(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
  pthread_mutex_lock(&lock);
  line("end\t%llu\t%s", (unsigned long long)id, domain_name(domain));
  pthread_mutex_unlock(&lock);
}

static uint64_t register_schema(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *schema) {
  pthread_mutex_lock(&lock);
  char text[2048] = "";
  (void)domain_name(domain);
  for (size_t i = 0; i < schema->numEntries; ++i) {
    const nvtxPayloadSchemaEntry_t *entry = &schema->entries[i];
    const nvtxSemanticsCounter_t *counter = (const nvtxSemanticsCounter_t *)(const void *)entry->semantics;
    if (entry->type != NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE || entry->offset != i * sizeof(double))
      line("fault\tentry %zu is of type %llu at %llu", i, (unsigned long long)entry->type, (unsigned long long)entry->offset);
    if (!counter || counter->header.semanticId != NVTX_SEMANTIC_ID_COUNTERS_V1 ||
        counter->header.structSize != sizeof *counter || counter->unitScaleDenominator == 0)
      line("fault\tentry %zu has no semantics of a counter", i);
    else
      snprintf(text + strlen(text), sizeof text - strlen(text), "\t%s[%s]", entry->name, counter->unit);
  }
  if (schema->payloadStaticSize != schema->numEntries * sizeof(double) || schema->type != NVTX_PAYLOAD_SCHEMA_TYPE_STATIC)
    line("fault\ta schema of %zu bytes for %zu entries", schema->payloadStaticSize, schema->numEntries);
  unsigned id = schema_count < MOST ? ++schema_count : 0;
  if (id) schema_entries[id - 1] = schema->numEntries;
  line("schema\t%u\t%s%s", id, schema->name, text);
  pthread_mutex_unlock(&lock);
  return id;
}

static uint64_t register_counters(nvtxDomainHandle_t domain, const nvtxCounterAttr_t *group) {
  pthread_mutex_lock(&lock);
  const char *name = domain_name(domain);
  if (group->structSize != sizeof *group || group->schemaId == 0 || group->schemaId > schema_count)
    line("fault\tcounters of size %zu with schema %llu", group->structSize, (unsigned long long)group->schemaId);
  unsigned id = counter_count < MOST ? ++counter_count : 0;
  if (id) counter_schema[id - 1] = (unsigned)group->schemaId;
  line("counters\t%u\t%u\t%s\t%s", id, (unsigned)group->schemaId, name, group->name);
  pthread_mutex_unlock(&lock);
  return id;
}

static void sample(nvtxDomainHandle_t domain, uint64_t id, const void *values, size_t size) {
  pthread_mutex_lock(&lock);
  char text[1024] = "";
  (void)domain_name(domain);
  if (id == 0 || id > counter_count || size != schema_entries[counter_schema[id - 1] - 1] * sizeof(double)) {
    line("fault\ta sample of %zu bytes for %llu", size, (unsigned long long)id);
  } else {
    for (size_t i = 0; i < size / sizeof(double); ++i) {
      double value;
      memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
      snprintf(text + strlen(text), sizeof text - strlen(text), "\t%.17g", value);
    }
    line("sample\t%llu%s", (unsigned long long)id, text);
  }
  pthread_mutex_unlock(&lock);
}

static void no_value(nvtxDomainHandle_t domain, uint64_t id, uint8_t reason) {
  pthread_mutex_lock(&lock);
  (void)domain_name(domain);
  line("unavailable\t%llu\t%u", (unsigned long long)id, reason);
  pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(get_export_table get) {
  const callbacks_table *callbacks = get(TABLE_CALLBACKS);
  void (***table)(void) = NULL;
  unsigned size = 0;
  if (!callbacks || !callbacks->module_table(MODULE_CORE2, &table, &size) || size <= CORE2_DOMAIN) return 0;
  *table[CORE2_START] = (void (*)(void))start_range;
  *table[CORE2_END] = (void (*)(void))end_range;
  *table[CORE2_NAME_CATEGORY] = (void (*)(void))name_category;
  *table[CORE2_DOMAIN] = (void (*)(void))create_domain;
  return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module) {
  intptr_t *slots = module->segments->functionSlots;
  if (module->moduleId == NVTX_EXT_PAYLOAD_MODULEID) {
    slots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = (intptr_t)register_schema;
  } else if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID) {
    slots[NVTX3EXT_CBID_nvtxCounterRegister] = (intptr_t)register_counters;
    slots[NVTX3EXT_CBID_nvtxCounterSample] = (intptr_t)sample;
    slots[NVTX3EXT_CBID_nvtxCounterSampleNoValue] = (intptr_t)no_value;
  } else {
    return 0;
  }
  return 1;
}
