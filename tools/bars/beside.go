package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A machine holds how long its processors were busy at a time: with all processes, and with those
// of this program that have ended.
type machine struct {
	at       time.Time
	all, own time.Duration
}

// readMachine reads Linux's counters.
func readMachine() machine {
	m := machine{at: time.Now()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		check(syscall.Getrusage(who, &used))
		m.own += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	line, _, _ := strings.Cut(string(must(os.ReadFile("/proc/stat"))), "\n")
	// The columns are user, nice, system, idle, iowait, irq, softirq and steal, in hundredths.
	for i, ticks := range strings.Fields(line)[1:9] {
		if i != 3 && i != 4 {
			m.all += time.Duration(must(strconv.Atoi(ticks))) * time.Second / 100
		}
	}
	return m
}

// since describes the machine, and how busy others kept it since an earlier time.
func (m machine) since(was machine) string {
	took := m.at.Sub(was.at)
	others := (m.all - was.all - (m.own - was.own)).Seconds() / took.Seconds()
	return fmt.Sprintf("%s, %d processors, of which others used %.1f on average, in %s.", runtime.Version(), runtime.NumCPU(),
		max(0, others), took.Round(time.Second))
}
