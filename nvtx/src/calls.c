/* What RaskIO uses of NVTX. The implementation of NVTX is in its headers: it looks at the first call whether a profiler is there
 * (NVTX_INJECTION64_PATH), and if not, every call is a load and a branch. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#include <string.h>

/* NULL: no profiler is there. */
void *raskio_nvtx_domain(const char *name) { return nvtxDomainCreateA(name); }

void raskio_nvtx_category(void *domain, uint32_t category, const char *name) {
  nvtxDomainNameCategoryA((nvtxDomainHandle_t)domain, category, name);
}

static nvtxEventAttributes_t attributes(uint32_t category, const char *message, uint64_t payload) {
  nvtxEventAttributes_t event = {0};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = category;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = message;
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = payload;
  return event;
}

uint64_t raskio_nvtx_start(void *domain, uint32_t category, const char *message, uint64_t payload) {
  const nvtxEventAttributes_t event = attributes(category, message, payload);
  return nvtxDomainRangeStartEx((nvtxDomainHandle_t)domain, &event);
}

void raskio_nvtx_end(void *domain, uint64_t range) { nvtxDomainRangeEnd((nvtxDomainHandle_t)domain, range); }

/* A group of `count` counters, doubles one behind the other. */
uint64_t raskio_nvtx_counters(void *domain, const char *name, const char *description, const char *const *names,
                              const char *const *units, size_t count) {
  enum { MOST = 16 };
  nvtxPayloadSchemaEntry_t entries[MOST] = {{0}};
  nvtxSemanticsCounter_t semantics[MOST];
  memset(semantics, 0, sizeof semantics);
  if (count > MOST) return NVTX_COUNTER_ID_NONE;
  for (size_t i = 0; i < count; ++i) {
    semantics[i].header.structSize = sizeof(nvtxSemanticsCounter_t);
    semantics[i].header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
    semantics[i].header.version = 1;
    semantics[i].flags = NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_SINCE_LAST;
    semantics[i].unit = units[i];
    semantics[i].unitScaleNumerator = 1;
    semantics[i].unitScaleDenominator = 1;
    entries[i].type = NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE;
    entries[i].name = names[i];
    entries[i].offset = i * sizeof(double);
    entries[i].semantics = &semantics[i].header;
  }
  nvtxPayloadSchemaAttr_t schema = {0};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.name = name;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = count;
  schema.payloadStaticSize = count * sizeof(double);
  nvtxCounterAttr_t group = {0};
  group.structSize = sizeof group;
  group.schemaId = nvtxPayloadSchemaRegister((nvtxDomainHandle_t)domain, &schema);
  group.name = name;
  group.description = description;
  group.scopeId = NVTX_SCOPE_CURRENT_HW_MACHINE;
  return nvtxCounterRegister((nvtxDomainHandle_t)domain, &group);
}

void raskio_nvtx_sample(void *domain, uint64_t counters, const double *values, size_t count) {
  nvtxCounterSample((nvtxDomainHandle_t)domain, counters, values, count * sizeof *values);
}

void raskio_nvtx_unavailable(void *domain, uint64_t counters) {
  nvtxCounterSampleNoValue((nvtxDomainHandle_t)domain, counters, NVTX_COUNTER_SAMPLE_UNAVAILABLE);
}
