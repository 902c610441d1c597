// What compilers' listings say of the bytes that an invocation waits for at one time.
#include "compilers/bytes_in_flight.h"

#include <doctest/doctest.h>

TEST_CASE("NAK's slots say which loads an instruction waits for") {
  const char* listing = R"(block.u 0 L2 [] -> {
      r12..16 = ld.global.a64.constant.b128 [r8..10], pT   // delay=1 rd:0 wr:1
      r20..24 = ld.global.a64.constant.b128 [r8..10], pT   // delay=1 rd:0 wr:2
      r28..32 = ld.global.a64.constant.b128 [r8..10], pT   // delay=1 rd:0 wr:3
} -> [1, 2]
block 1 L5 [0, 1] -> {
      r5      = ld.global.a64.constant.b32 [r10..12], pT   // delay=1 wr:0
      r6..8   = ld.global.a64.constant.b64 [r8..10], pT    // delay=1 rd:2 wr:3
      ur1     = iadd3 ur1 ur2 rZ                           // delay=3 wt=001000
      r7      = ld.global.a64.constant.b32 [r10..12], pT   // delay=1 wr:4
      r9      = iadd3 r5 r7 rZ                             // delay=3 wt=010001
      bra !up0 L5                                          // delay=1
} -> [1, 2]
block 2 L6 [1] -> {
} -> []
)";
  CHECK(bytes_in_flight("NAK assembly", listing) == 12); // what is loaded before the loop is over in it
}

TEST_CASE("ACO's counts say how many loads may stay under way") {
  const char* listing = R"(BB0:
	s_load_b128 s[12:15], s[2:3], null                          ; f4080301 f8000000
	buffer_load_b128 v[4:7], v3, s[16:19], 0 offen              ; e05c0000 80440403
BB7:
	s_waitcnt vmcnt(0)                                          ; bf8903f7
	buffer_load_b128 v[12:15], v12, s[16:19], 0 offen           ; e05c0000 80440c0c
	s_waitcnt lgkmcnt(0)                                        ; bf89fc07
	buffer_load_dwordx2 v[20:21], v3, s[24:27], 0 offen         ; e05c0000 80461403
	s_waitcnt vmcnt(1)                                          ; bf891bf7
	buffer_load_ushort v17, v17, s[20:23], 0 offen              ; e0500000 80451111
	s_cbranch_scc1 BB7                                          ; bfa2ff26
BB8:
	s_endpgm                                                    ; bfb00000
)";
  CHECK(bytes_in_flight("Assembly", listing) == 24);
}

TEST_CASE("Intel's messages are waited for by their tokens") {
  const char* listing = R"(LABEL2:
send(16)        g106UD          g105UD          nullUD          0x62403500                0x01000000
                ugm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS dst_len = 4, src0_len = 1, src1_len = 0 bti )  BTI 1  base_offset 0  { align1 1H I@3 $2 };
send(16)        g69UD           g110UD          nullUD          0x62100500                0x02000000
                ugm MsgDesc: ( load, a32, d16u32, V1, L1STATE_L3MOCS dst_len = 1, src0_len = 1, src1_len = 0 bti )  BTI 2  base_offset 0  { align1 1H I@2 $3 };
mov(16)         g62<1>UD        g106<1,1,0>UD                   { align1 1H $3.dst compacted };
send(16)        g69UD           g110UD          nullUD          0x62100500                0x02000000
                slm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS dst_len = 1, src0_len = 1, src1_len = 0 bti )  BTI 2  base_offset 0  { align1 1H I@2 $4 };
send(8)         g3UD            g109UD          nullUD          0x02406002                0x00000000
                hdc1 MsgDesc: (untyped surface read, Surface = 2, SIMD8, Mask = 0x0)  mlen 1 ex_mlen 0 rlen 2 { align1 1Q @3 $13 };
mov(16)         g62<1>UD        g106<1,1,0>UD                   { align1 1H $2.dst compacted };
while(16)       JIP:  LABEL2                                    { align1 1H };
)";
  CHECK(bytes_in_flight("GEN Assembly", listing) ==
        24 + 2); // $13 is waited for by nothing, and then used again
}

TEST_CASE("Qualcomm's instructions wait for all or nothing") {
  const char* listing = R"(l93:
br p0.y, #l268
isam.v.base0 (u32)(xyzw)r5.z, r5.x, s#0, t#2
isam.v.base0 (u32)(x)r2.z, r6.w, s#0, t#4
(sy)shr.b r2.w, (last)r2.w, (last)r4.w
ldib.b.untyped.1d.u32.2.imm.base0 r1.x, r2.x, 3
jump #l93
l268:
)";
  CHECK(bytes_in_flight("IR3 Assembly", listing) == 28);
}

TEST_CASE("other listings, and empty ones") {
  CHECK(!bytes_in_flight("NIR shader", "block"));
  CHECK(bytes_in_flight("Assembly", "") == 0);
}
