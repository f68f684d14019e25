#include "textflag.h"

// Each of them 16 times: the quote, the backslash, and the last control character.
DATA quotes<>+0(SB)/8, $0x2222222222222222
DATA quotes<>+8(SB)/8, $0x2222222222222222
GLOBL quotes<>(SB), RODATA|NOPTR, $16
DATA slashes<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA slashes<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL slashes<>(SB), RODATA|NOPTR, $16
DATA controls<>+0(SB)/8, $0x1f1f1f1f1f1f1f1f
DATA controls<>+8(SB)/8, $0x1f1f1f1f1f1f1f1f
GLOBL controls<>(SB), RODATA|NOPTR, $16

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

// MARK adds the bits of 16 bytes to those of the 64: to AX the stops, to BX what is beyond ASCII.
#define MARK(at) \
	LOOK(at)           \
	PMOVMSKB X0, R8    \
	PMOVMSKB X1, R9    \
	SHLQ   $at, R8     \
	SHLQ   $at, R9     \
	ORQ    R8, AX      \
	ORQ    R9, BX

// func plain(b []byte) (n int, stop, high uint64)
TEXT ·plain(SB), NOSPLIT, $0-48
	MOVQ b_base+0(FP), SI
	MOVQ b_len+8(FP), CX
	MOVOU quotes<>(SB), X5
	MOVOU slashes<>(SB), X6
	MOVOU controls<>(SB), X7
	XORQ AX, AX
	XORQ BX, BX
	MOVQ SI, DI

block:
	SUBQ $64, CX
	JLT  done
	MARK(0)
	MARK(16)
	MARK(32)
	MARK(48)
	MOVQ AX, DX
	ORQ  BX, DX
	JNZ  done
	ADDQ $64, SI
	JMP  block

done:
	SUBQ DI, SI
	MOVQ SI, n+24(FP)
	MOVQ AX, stop+32(FP)
	MOVQ BX, high+40(FP)
	RET
