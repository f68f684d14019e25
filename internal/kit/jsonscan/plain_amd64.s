#include "textflag.h"

// Bytes that are looked for, each of them 16 times.
#define SIXTEEN(name, value) \
DATA name<>+0(SB)/8, $value \
DATA name<>+8(SB)/8, $value \
GLOBL name<>(SB), RODATA|NOPTR, $16

SIXTEEN(quotes, 0x2222222222222222)
SIXTEEN(slashes, 0x5c5c5c5c5c5c5c5c)
SIXTEEN(controls, 0x1f1f1f1f1f1f1f1f)
// UTF-8. Comparisons have signs, so what is beyond ASCII is below zero, in order.
SIXTEEN(twos, 0xc0c0c0c0c0c0c0c0)
SIXTEEN(below3, 0xdfdfdfdfdfdfdfdf)
SIXTEEN(below4, 0xefefefefefefefef)
SIXTEEN(last, 0xf3f3f3f3f3f3f3f3)
SIXTEEN(e0, 0xe0e0e0e0e0e0e0e0)
SIXTEEN(ed, 0xedededededededed)
SIXTEEN(f0, 0xf0f0f0f0f0f0f0f0)
SIXTEEN(ones, 0x0101010101010101)
SIXTEEN(c1, 0xc1c1c1c1c1c1c1c1)

// LOOK loads 16 bytes and leaves ff in X0 for each byte that stops the scan, and the bytes themselves in X1. A byte is a
// control character if it is the smaller of itself and the last one.
#define LOOK(at) \
	MOVOU  at(SI), X1  \
	MOVO   X1, X0      \
	PMINUB X7, X0      \
	PCMPEQB X1, X0     \
	MOVO   X1, X2      \
	PCMPEQB X5, X2     \
	POR    X2, X0      \
	MOVO   X1, X2      \
	PCMPEQB X6, X2     \
	POR    X2, X0

// BITS adds a bit for each byte of X from to those of the 64 in a register.
#define BITS(from, at, to) \
	PMOVMSKB from, R8  \
	SHLQ   $at, R8     \
	ORQ    R8, to

// MARK adds bits for bytes that stop the scan (AX), and for those beyond ASCII (BX).
#define MARK(at) \
	LOOK(at)           \
	BITS(X0, at, AX)   \
	BITS(X1, at, BX)

// EQUAL adds a bit for each byte that is the one of with.
#define EQUAL(at, with, to) \
	MOVOU  at(SI), X1  \
	PCMPEQB with, X1   \
	BITS(X1, at, to)

// UTF8 adds bits for bytes that continue a character (R9), that begin one of at least three bytes (R10) or four (R11), and
// that need a closer look (R12). All but the first have bits for ASCII, too.
#define UTF8(at) \
	MOVOU  at(SI), X1  \
	MOVO   X3, X0      \
	PCMPGTB X1, X0     \
	BITS(X0, at, R9)   \
	MOVO   X1, X0      \
	PCMPGTB X4, X0     \
	BITS(X0, at, R10)  \
	MOVO   X1, X0      \
	PCMPGTB X8, X0     \
	BITS(X0, at, R11)  \
	MOVO   X1, X0      \
	PCMPGTB X9, X0     \
	MOVO   X1, X2      \
	PCMPEQB X10, X2    \
	POR    X2, X0      \
	MOVO   X1, X2      \
	PCMPEQB X11, X2    \
	POR    X2, X0      \
	MOVO   X1, X2      \
	PCMPEQB X12, X2    \
	POR    X2, X0      \
	POR    X13, X1     \
	PCMPEQB X14, X1    \
	POR    X1, X0      \
	BITS(X0, at, R12)

// func look(b []byte, m *marks) (n int)
TEXT ·look(SB), NOSPLIT, $0-40
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	MOVQ m+24(FP), R13
	MOVOU quotes<>(SB), X5
	MOVOU slashes<>(SB), X6
	MOVOU controls<>(SB), X7
	XORQ AX, AX
	XORQ BX, BX
	MOVQ SI, DI

block:
	SUBQ $64, CX
	JLT  end
	MARK(0)
	MARK(16)
	MARK(32)
	MARK(48)
	MOVQ AX, DX
	ORQ  BX, DX
	JNZ  found
	ADDQ $64, SI
	JMP  block

found:
	XORQ DX, DX
	TESTQ AX, AX
	JZ   texts
	EQUAL(0, X6, DX)
	EQUAL(16, X6, DX)
	EQUAL(32, X6, DX)
	EQUAL(48, X6, DX)

texts:
	MOVQ AX, 0(R13)
	MOVQ DX, 8(R13)
	MOVQ BX, 16(R13)

done:
	SUBQ DI, SI
	MOVQ SI, n+32(FP)
	RET

end:
	MOVQ AX, 0(R13)
	MOVQ AX, 8(R13)
	MOVQ AX, 16(R13)
	JMP  done

// func spell(block *[64]byte, m *marks)
TEXT ·spell(SB), NOSPLIT, $0-16
	MOVQ block+0(FP), SI
	MOVQ m+8(FP), R13
	MOVQ 16(R13), BX
	MOVOU twos<>(SB), X3
	MOVOU below3<>(SB), X4
	MOVOU below4<>(SB), X8
	MOVOU last<>(SB), X9
	MOVOU e0<>(SB), X10
	MOVOU ed<>(SB), X11
	MOVOU f0<>(SB), X12
	MOVOU ones<>(SB), X13
	MOVOU c1<>(SB), X14
	XORQ R9, R9
	XORQ R10, R10
	XORQ R11, R11
	XORQ R12, R12
	UTF8(0)
	UTF8(16)
	UTF8(32)
	UTF8(48)
	ANDQ BX, R10
	ANDQ BX, R11
	ANDQ BX, R12
	MOVQ R9, 24(R13)
	MOVQ R10, 32(R13)
	MOVQ R11, 40(R13)
	MOVQ R12, 48(R13)
	RET
