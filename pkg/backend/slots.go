package backend

// slotCount is how many hash slots a Redis Cluster has.
const slotCount = 16384

// hashTag returns the part of a key that says where it lies in a Cluster: what
// stands between the first { and the } after it, or the whole key where that is
// nothing.
func hashTag[T string | []byte](key T) T {
	for open := range len(key) {
		if key[open] != '{' {
			continue
		}
		for end := open + 1; end < len(key); end++ {
			if key[end] == '}' {
				if end == open+1 {
					return key
				}
				return key[open+1 : end]
			}
		}
		return key
	}
	return key
}

// slotOf returns the hash slot of a key: the CRC16 of its hash tag.
func slotOf(key []byte) uint16 {
	var crc uint16 // CRC-16/XMODEM
	for _, b := range hashTag(key) {
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
