package backend

import "bytes"

// slotCount is how many hash slots a Redis Cluster has.
const slotCount = 16384

// slotOf returns the hash slot of a key: the CRC16 of what stands between the
// first { and the } after it, or of the whole key where that is nothing.
func slotOf(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if length := bytes.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % slotCount
}
