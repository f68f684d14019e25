package passkey

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// The sizes of RSA keys that are accepted, in bits.
const (
	minModulus = 2048
	maxModulus = 4096
)

// errKeyKind is the error of a key that is none of the three kinds, or is too small or too large.
var errKeyKind = errors.New("the key is of a kind that is not accepted")

// toPKIX returns the stored form of a key that an authenticator made, and its algorithm.
func toPKIX(cose []byte) (der []byte, algorithm int, err error) {
	parsed, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return nil, 0, err
	}
	var key any
	switch k := parsed.(type) {
	case webauthncose.EC2PublicKeyData:
		algorithm = int(k.Algorithm)
		if key, err = k.ToECDSA(); err != nil {
			return nil, 0, err
		}
	case webauthncose.OKPPublicKeyData:
		key, algorithm = ed25519.PublicKey(k.XCoord), int(k.Algorithm)
	case webauthncose.RSAPublicKeyData:
		exponent, err := webauthncose.ParseRSAPublicKeyDataExponent(&k)
		if err != nil {
			return nil, 0, err
		}
		modulus := new(big.Int).SetBytes(k.Modulus)
		if bits := modulus.BitLen(); bits < minModulus || bits > maxModulus {
			return nil, 0, fmt.Errorf("%w: RSA with %d bits", errKeyKind, bits)
		}
		key, algorithm = &rsa.PublicKey{N: modulus, E: exponent}, int(k.Algorithm)
	default:
		return nil, 0, errKeyKind
	}
	der, err = x509.MarshalPKIXPublicKey(key)
	return der, algorithm, err
}

// toCOSE returns the form of a stored key that the library takes. The library checks that the algorithm is one for it.
// An uncompressed point is a byte 4 and the two coordinates, which have the same length.
func toCOSE(der []byte, algorithm int) ([]byte, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, err
	}
	head := webauthncose.PublicKeyData{Algorithm: int64(algorithm)}
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		head.KeyType = int64(webauthncose.EllipticKey)
		x, y := point[1:1+len(point)/2], point[1+len(point)/2:]
		return webauthncbor.Marshal(webauthncose.EC2PublicKeyData{PublicKeyData: head, Curve: int64(webauthncose.P256), XCoord: x, YCoord: y})
	case *rsa.PublicKey:
		head.KeyType = int64(webauthncose.RSAKey)
		exponent := big.NewInt(int64(k.E)).Bytes()
		return webauthncbor.Marshal(webauthncose.RSAPublicKeyData{PublicKeyData: head, Modulus: k.N.Bytes(), Exponent: exponent})
	case ed25519.PublicKey:
		head.KeyType = int64(webauthncose.OctetKey)
		return webauthncbor.Marshal(webauthncose.OKPPublicKeyData{PublicKeyData: head, Curve: int64(webauthncose.Ed25519), XCoord: k})
	}
	return nil, errKeyKind
}
