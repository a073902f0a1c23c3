package search

import (
	"slices"
	"strings"
	"sync"
)

// relatedWords are words of everyday English that say much the same or are of the same subject, one group a line: a
// picture is a photo, and who flies uses an airport. They were written down for no collection in particular; a word
// may be in several groups.
const relatedWords = `
add append insert attach
airline airport flight flights fly aviation plane
album song track music artist playlist singer lyrics band tune
allergy illness disease symptom medical doctor patient clinic hospital diagnosis medicine health
analyze analyse examine inspect evaluate assess review audit
animal pet dog cat puppy wildlife
answer reply respond response
apartment house home property estate rent realtor housing mortgage
app application software program
arrange organize organise schedule plan
article blog post story newspaper news headline journalism
astrology horoscope zodiac tarot fortune
attorney lawyer legal law court lawsuit
author writer book novel literature reading library
auto automobile car vehicle motor drive truck
award prize winner
baby child kid toddler parent infant
bank account balance loan credit debit
beautiful attractive pretty style fashion outfit clothes clothing wardrobe dress wear
beer wine cocktail drink beverage liquor
begin start launch initiate open
bill invoice receipt payment pay charge
biology chemistry physics science scientific research
bitcoin crypto cryptocurrency blockchain token coin wallet ethereum
book reserve reservation booking
boss manager employer employee staff colleague worker
bug error fault issue defect crash
build construct create make generate produce
business company firm enterprise corporation organization startup
buy purchase shop shopping order store product merchandise
calculate compute calculator arithmetic math maths mathematics equation algebra sum
calendar appointment meeting event agenda schedule
calorie nutrition diet food meal eat weight
cancel abort stop terminate end
career job employment work vacancy occupation hire recruit resume cv
celebrate birthday party anniversary wedding
change modify alter edit update adjust
chart graph diagram plot visualize visualise visualization
chat talk conversation converse discuss message
cheap affordable bargain discount deal coupon promo voucher sale saving
check verify validate confirm test
choose pick select decide choice
cinema movie film actor director television tv show series episode
city town place location area region neighborhood
class lesson course lecture teach teacher tutor learn study student school university education
climate weather temperature forecast rain snow wind storm humidity
code coding programming developer script program software
coin currency money exchange dollar euro
combine merge join unite concatenate
compare comparison contrast versus difference
compress zip shrink archive
computer laptop pc device hardware
connect link join attach
convert transform translate conversion
cook recipe dish ingredient kitchen meal cuisine
copy duplicate clone replicate
cost price fee rate expense
count number amount quantity total
country nation land
customer client buyer consumer
danger risk hazard threat
data dataset statistics figures information
date day time calendar
delete remove erase discard drop
delivery shipping shipment parcel package courier
describe explain clarify description
design draw drawing sketch illustrate art artwork paint logo
destination trip travel journey vacation holiday tour tourist tourism itinerary sightseeing
dictionary vocabulary word definition meaning synonym thesaurus grammar spelling
directions route map navigate navigation location
disaster earthquake emergency hurricane flood
document file pdf paper
domain website site web page url link internet
donate charity volunteer
download fetch retrieve get obtain
earn income salary wage revenue
economy economic finance financial market
election vote politics political government president
email mail inbox message
energy electricity power solar
english language translate translation translator speak foreign
environment ecology carbon emission pollution sustainability
exam test quiz question trivia assessment
exercise workout fitness gym training muscle
face portrait avatar selfie
famous celebrity popular trending
fast quick rapid speed
find search seek look locate discover
flower plant garden gardening tree
food restaurant dining dinner lunch eat cafe menu
football soccer basketball baseball tennis sport sports league match team player
free complimentary gratis
friend companion buddy
fun funny humor humour joke laugh comedy entertain entertainment meme
game play gaming player puzzle
gift present surprise
goal target objective aim
guide tutorial instruction manual help
hotel accommodation lodging hostel stay room
house furniture interior decor decorate
idea suggestion inspiration brainstorm
image picture photo photograph photography visual
improve enhance optimize optimise better
increase grow raise
insurance coverage policy insure
invest investment investor stock stocks share shares equity portfolio fund trading trade
keyword seo ranking marketing advertise advertisement advertising campaign promote
list enumerate catalog catalogue
love romance dating relationship partner
lottery lotto gamble gambling bet betting casino
meditate meditation mindfulness relax stress anxiety therapy mental
memory remember recall note reminder
mobile phone telephone call smartphone
museum gallery exhibition
network internet connection wifi
password security secure encrypt privacy
patent trademark invention
people person human individual
podcast radio audio sound voice speech listen
poem poetry poet rhyme verse
predict prediction forecast
presentation slide slides slideshow powerpoint
print printer
problem issue trouble difficulty
professor academic scholar paper journal citation publication research
qr barcode scan
quote quotation saying proverb
rank rating review opinion feedback
read reader reading
recommend recommendation suggest suggestion advice advise
record log register history
religion religious bible quran prayer scripture church
repair fix mend
report summary overview
rewrite paraphrase rephrase reword
safe secure protect protection
sell seller vendor auction
send deliver transmit share
sentiment emotion mood feeling
shorten abbreviate
social twitter facebook instagram tiktok followers influencer
space astronomy planet star nasa satellite moon
spreadsheet excel csv table
summarize summarise summary abstract condense digest
survey poll questionnaire
task todo chore project
tax taxes irs deduction
ticket concert event show festival
timezone clock hour
train railway rail bus metro subway transit transport transportation taxi
upload submit send
video youtube clip movie watch stream streaming
word text sentence paragraph
write compose draft essay letter
`

// related returns the related stems by stem. The table is made at the first search that needs it.
var related = sync.OnceValue(func() map[string][]string { return relate(relatedWords) })

// relate returns, for the stem of every word, the stems of all others of its groups.
func relate(groups string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(groups) {
		var stems []string
		for _, w := range strings.Fields(line) {
			stems = append(stems, stem(w))
		}
		for _, s := range stems {
			for _, other := range stems {
				if other != s && !slices.Contains(m[s], other) {
					m[s] = append(m[s], other)
				}
			}
		}
	}
	return m
}
