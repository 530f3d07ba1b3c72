// Command probe stands for the product in tests that need a second architecture.
package main

func main() {}
