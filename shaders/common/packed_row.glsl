// How an invocation that takes one row of a packed tile finds the row's dwords; runtime/kernel/weight_packing.h describes the
// tile. The including file defines
//   LANE_BYTES: consecutive bytes of one row
//   PACKED_DWORD(i): dword i of the payload

// Dword c of a row's block that has so many; the tile's block begins at dword `block`.
uint packed_dword(uint block, uint row, uint c, uint dwords) {
  if (LANE_BYTES == 2u) {
    const uint at = block + c * 8u + row / 2u, shift = row % 2u * 16u;
    return (PACKED_DWORD(at) >> shift & 0xffffu) | PACKED_DWORD(at + 4u) >> shift << 16u;
  }
  const uint lane_dwords = LANE_BYTES / 4u, group = c / lane_dwords * lane_dwords;
  return PACKED_DWORD(block + group * 8u + row * min(lane_dwords, dwords - group) + c - group);
}
