package cli

import (
	"context"
	"fmt"
	"os"

	"ravenbot/internal/pdftext"
)

// readPDF has this very program read a PDF in a process of its own.
func readPDF(ctx context.Context, data []byte) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program that reads PDFs: %w", err)
	}
	return pdftext.Separate(ctx, program, os.Args[0], data)
}
