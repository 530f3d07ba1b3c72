// Command release builds what users download: an image as an OCI layout, archives with checksums,
// and for each binary a bill of materials (CycloneDX) and the licences of its modules.
//
//	release image    -out dist/image    both platforms in one OCI layout
//	release archives -out dist          tar.gz of each platform, SHA256SUMS
//	release licences                    the licence of each linked module; fails on others
//
// It needs Go only: no container daemon and no base image. The same commit gives the same bytes,
// because every time in the output is the time of the commit.
package main
