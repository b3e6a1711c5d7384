package tracing

import (
	"os"
	"strconv"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// mostWaiting bounds OTEL_BSP_MAX_QUEUE_SIZE: room for all is made at once.
	mostWaiting = 1 << 20

	// longest bounds the times of OTEL_BSP_…, in milliseconds: a day.
	longest = int(24 * time.Hour / time.Millisecond)
)

// newBatches has spans be sent many at a time, as the variables say. All of them
// are read here: with one that is no number, or is less than 1,
// OpenTelemetry's own reading of them panics, or sends without a pause.
func newBatches(to sdktrace.SpanExporter, queue int) sdktrace.SpanProcessor {
	return sdktrace.NewBatchSpanProcessor(to,
		sdktrace.WithMaxQueueSize(queue),
		sdktrace.WithMaxExportBatchSize(number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(sdktrace.DefaultMaxExportBatchSize, queue), queue)),
		sdktrace.WithBatchTimeout(milliseconds("OTEL_BSP_SCHEDULE_DELAY", sdktrace.DefaultScheduleDelay)),
		sdktrace.WithExportTimeout(milliseconds("OTEL_BSP_EXPORT_TIMEOUT", sdktrace.DefaultExportTimeout)),
	)
}

func milliseconds(variable string, otherwise int) time.Duration {
	return time.Duration(number(variable, otherwise, longest)) * time.Millisecond
}

// number reads a variable as OpenTelemetry does: one that is no number from 1 to
// the most that it may be is not set.
func number(variable string, otherwise, most int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 && n <= most {
		return n
	}
	return otherwise
}
