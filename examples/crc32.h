/* CRC-32 as zlib, gzip and PNG compute it, eight bytes a step. */
#ifndef EXAMPLES_CRC32_H
#define EXAMPLES_CRC32_H
#include <stddef.h>
#include <stdint.h>

static uint32_t crc32_update(uint32_t crc, const unsigned char *data, size_t size) {
  static uint32_t table[8][256];
  if (table[0][1] == 0) {
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; bit++) {
        value = (value >> 1) ^ ((value & 1u) ? 0xedb88320u : 0u);
      }
      table[0][i] = value;
    }
    for (uint32_t i = 0; i < 256; i++) {
      for (int k = 1; k < 8; k++) {
        table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xffu];
      }
    }
  }
  crc = ~crc;
  for (; size >= 8; data += 8, size -= 8) {
    uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
    crc = table[7][low & 0xffu] ^ table[6][(low >> 8) & 0xffu] ^ table[5][(low >> 16) & 0xffu] ^ table[4][low >> 24] ^
          table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^ table[0][data[7]];
  }
  for (; size > 0; data++, size--) {
    crc = (crc >> 8) ^ table[0][(crc ^ *data) & 0xffu];
  }
  return ~crc;
}
#endif
